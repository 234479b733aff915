"""Random close-ups, so that a classifier has seen some before it is asked for a second look."""

import keras
import tensorflow as tf
from keras import ops


class RandomZooms(keras.layers.Layer):
    """Enlarges a random square of some of the images to the full size.

    Args:
        fraction: Part of the images that are zoomed into.
        min_side: Smallest side of a square, relative to the image; the largest is 1.
        seed: Seed; the state of the generator is a variable of the layer.

    Example:
        zooms = RandomZooms(fraction=0.5, min_side=0.5)
        images = zooms(images, training=True)
    """

    def __init__(self, fraction, min_side, seed=0, **kwargs):
        super().__init__(**kwargs)
        self.fraction = fraction
        self.min_side = min_side
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.built = True

    def call(self, images, training=False):
        if not training or not self.fraction:
            return images
        squares = self.draw(ops.shape(images)[0])
        zoomed = tf.image.crop_and_resize(
            # In float32, which is what it gives; boxes there are yxyx.
            tf.cast(images, tf.float32),
            tf.gather(squares, [1, 0, 3, 2], axis=1),
            tf.range(tf.shape(images)[0]),
            images.shape[1:3],
        )
        return ops.cast(zoomed, images.dtype)

    def draw(self, batch_size):
        """Return squares [B, 4], relative xyxy; (0, 0, 1, 1) for an image that stays as it is."""

        def uniform(columns):
            return keras.random.uniform((batch_size, columns), seed=self.seed_generator)

        side = self.min_side + (1.0 - self.min_side) * uniform(1)
        side = ops.where(uniform(1) < self.fraction, side, ops.ones_like(side))
        corner = uniform(2) * (1.0 - side)
        return ops.concatenate([corner, corner + side], axis=-1)
