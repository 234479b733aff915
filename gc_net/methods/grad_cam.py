"""Grad-CAM (Selvaraju et al., ICCV 2017)."""

import tensorflow as tf

from gc_net.classifier import Classifier
from gc_net.methods.base import Forward, HeatMapMethod, TrainingBatches


class GradCAM(HeatMapMethod):
    """ReLU(Σ_k α_k f_k): the trunk's channels, weighted by the class score's mean gradient.

    It works with every head. If the head is an average and one linear layer, α is proportional to
    the layer's weights, and the map is that of CAM without its negative part.
    """

    name = "grad_cam"
    title = "Grad-CAM"
    level = 0.15  # of the maximum, as in Selvaraju et al.

    def fit(self, classifier: Classifier, training_batches: TrainingBatches) -> None:
        self._head = classifier.head

    def localize(self, forward: Forward) -> tf.Tensor:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(forward.features)
            scores = tf.gather(
                self._head(forward.features, training=False), forward.labels, batch_dims=1
            )
        gradients = tape.gradient(scores, forward.features)  # [B, h, w, C]
        weights = self.weights(forward.features, gradients)
        return tf.nn.relu(tf.reduce_sum(weights * forward.features, axis=-1))

    def weights(self, features: tf.Tensor, gradients: tf.Tensor) -> tf.Tensor:
        """Return the weights of the channels, broadcastable to [B, h, w, C]."""
        return tf.reduce_mean(gradients, axis=(1, 2), keepdims=True)
