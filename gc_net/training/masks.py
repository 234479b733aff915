"""Random geometric masks, which show a classifier masked images before it has to judge them."""

from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
from keras import ops

from gc_net import shapes

if TYPE_CHECKING:
    from gc_net.shapes.base import Shape


class RandomMasks(keras.layers.Layer):
    """Shows a part of the normalized images through random shapes, the rest in mean colour.

    Args:
        shape: Name of a shape.
        fraction: Part of the images that are masked.
        min_extent, max_extent: Range of the masks' width and height, relative to the image.
        inverted: Part of the masks that hide the inside instead.
        seed: Seed; the state of the generator is a variable of the layer.

    Example:
        masks = RandomMasks("rotated_rectangle", fraction=0.5, min_extent=0.55, max_extent=1.1)
        normalized = masks(classifier.normalize(images), training=True)
    """

    def __init__(
        self,
        shape: "str | Shape",
        fraction: float,
        min_extent: float,
        max_extent: float,
        inverted: float = 0.0,
        seed: int = 0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.shape = shapes.get(shape)
        self.fraction = fraction
        self.min_extent = min_extent
        self.max_extent = max_extent
        self.inverted = inverted
        self.seed_generator = ReplicaSeeds(seed)
        self.built = True

    def call(self, normalized, training=False):
        if not training or not self.fraction:
            return normalized
        return normalized * ops.cast(self.draw(normalized), normalized.dtype)

    def draw(self, images: Any) -> Any:
        """Return masks [B, H, W, 1] of zeros and ones for a batch of images."""
        batch_size, height, width = ops.shape(images)[0], images.shape[1], images.shape[2]

        def uniform(columns):
            return keras.random.uniform((batch_size, columns), seed=self.seed_generator)

        extents = self.min_extent + (self.max_extent - self.min_extent) * uniform(2)
        # A smaller mask may lie further from the middle; it never leaves the image.
        center = 0.5 + (uniform(2) - 0.5) * ops.maximum(1.0 - extents, 0.0)
        unit = [center, extents]
        if self.shape.rotates:
            unit.append(uniform(1))
        masks = self.shape.masks(
            self.shape.from_unit(ops.concatenate(unit, axis=-1)), height, width
        )

        def chosen(fraction):
            return uniform(1)[:, :, None, None] < fraction  # [B, 1, 1, 1]

        masks = ops.where(chosen(self.inverted), 1.0 - masks, masks)
        return ops.where(chosen(self.fraction), masks, ops.ones_like(masks))


class ReplicaSeeds(keras.random.SeedGenerator):
    """Seeds that differ between devices, although the state of the generator does not."""

    def next(self, ordered=True):
        seed = super().next(ordered)
        context = tf.distribute.get_replica_context()
        if context is None:
            return seed
        # Of the two numbers of a seed the second counts the draws.
        replica = tf.cast(context.replica_id_in_sync_group, seed.dtype)
        return seed + tf.stack([replica, tf.zeros_like(replica)])
