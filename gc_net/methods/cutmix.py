"""CutMix (Yun et al., ICCV 2019)."""

import keras
import tensorflow as tf

from gc_net.methods.cam import CAM
from gc_net.methods.training import ClassifierTraining


class MixedImages(ClassifierTraining):
    """A rectangle of each image comes from another image of the batch, and so does its label."""

    def augment(self, normalized: tf.Tensor) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        batch_size, size = tf.shape(normalized)[0], normalized.shape[1]
        part, x, y = tf.unstack(keras.random.uniform((3,), seed=self.seeds))
        partners = keras.random.shuffle(tf.range(batch_size), seed=self.seeds)
        outside, share = cut_out(part, x, y, size)
        outside = tf.cast(outside, normalized.dtype)[None, :, :, None]
        mixed = outside * normalized + (1 - outside) * tf.gather(normalized, partners)
        return mixed, {"partners": partners, "share": share}

    def class_loss(self, labels: tf.Tensor, outputs: dict[str, tf.Tensor]) -> tf.Tensor:
        logits, share = outputs["logits"], outputs["share"]
        partners = tf.gather(labels, outputs["partners"])
        return share * self.loss.call(labels, logits) + (1 - share) * self.loss.call(
            partners, logits
        )


def cut_out(part: tf.Tensor, x: tf.Tensor, y: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return a mask [size, size] that is 0 in a rectangle, and the part of the pixels that is 1.

    Args:
        part: λ, the part that stays, from 0 to 1; the rectangle is cut off at the border.
        x, y: Its centre, relative.
    """
    half = tf.floor(size * tf.sqrt(1.0 - part)) // 2
    pixels = tf.range(size, dtype=tf.float32)

    def within(center):
        center = tf.floor(center * size)
        return (pixels >= center - half) & (pixels < center + half)

    outside = 1.0 - tf.cast(within(y)[:, None] & within(x)[None, :], tf.float32)
    return outside, tf.reduce_mean(outside)


class CutMix(CAM):
    """CAM of a classifier that saw patches of other images, and had to give the share of each.

    λ is uniform, the authors' Beta(1, 1). The rectangle has a part 1 − λ of the image and a uniform
    centre. The label's share is that of the pixels that remain, after the rectangle is cut off at
    the border. A whole batch has one rectangle, and every batch is mixed, as in the authors' code
    for ImageNet.
    """

    name = "cutmix"
    title = "CutMix"
    training = MixedImages
