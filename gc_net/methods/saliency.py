"""Gradient saliency (Simonyan et al., ICLR workshop 2014)."""

import tensorflow as tf

from gc_net.classifier import Classifier
from gc_net.methods.base import Forward, HeatMapMethod, TrainingBatches

# Width of the blur, as a fraction of the image. Single pixels of a gradient are noise, and would
# become connected parts of their own.
_BLUR = 1 / 32


class Saliency(HeatMapMethod):
    """max over colours of |∂ class score / ∂ pixel|, blurred.

    The authors grow the box from the brightest pixels by a colour segmentation. Here the map is cut
    like every other map.
    """

    name = "saliency"
    title = "Gradient saliency"
    level = 0.2

    def fit(self, classifier: Classifier, training_batches: TrainingBatches) -> None:
        self._classifier = classifier

    def localize(self, forward: Forward) -> tf.Tensor:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(forward.normalized)
            logits = self._classifier.from_normalized(forward.normalized, training=False)
            scores = tf.gather(logits, forward.labels, batch_dims=1)
        gradients = tape.gradient(scores, forward.normalized)  # [B, S, S, 3]
        return _blurred(tf.reduce_max(tf.abs(gradients), axis=-1))


def _blurred(maps):
    """Blur maps [B, S, S] by a Gaussian, without darkening them towards the border."""
    deviation = max(1.0, maps.shape[1] * _BLUR)
    radius = int(3 * deviation)
    offsets = tf.range(-radius, radius + 1, dtype=maps.dtype)
    weights = tf.exp(-0.5 * tf.square(offsets / deviation))
    weights /= tf.reduce_sum(weights)
    x = tf.pad(maps, [[0, 0], [radius, radius], [radius, radius]], "SYMMETRIC")[..., None]
    x = tf.nn.conv2d(x, weights[:, None, None, None], 1, "VALID")
    return tf.nn.conv2d(x, weights[None, :, None, None], 1, "VALID")[..., 0]
