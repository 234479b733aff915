"""Silhouettes as a method, like the teacher of a warm-up.

It works at the model's image size and in its frame; the teacher sees whole images, often larger.
"""

import tensorflow as tf

from gc_net.methods.base import Forward
from gc_net.methods.ddt import ImageNetDDT
from gc_net.teachers.silhouettes import SIZE, silhouettes


class Silhouettes(ImageNetDDT):
    """The result of DDT with ImageNet weights, cut out along the colours of the image."""

    name = "silhouettes"
    title = "Silhouettes, ImageNet weights"

    def localize(self, forward: Forward) -> tf.Tensor:
        masks = tf.numpy_function(silhouettes, [forward.images, super().localize(forward)], tf.bool)
        # Half above the cut and half below it, so that enlarging keeps the border where it is.
        return tf.cast(tf.ensure_shape(masks, [None, SIZE, SIZE]), tf.float32) - 0.5
