"""Class activation maps (Zhou et al., CVPR 2016)."""

import tensorflow as tf

from gc_net.classifier import Classifier, outputs_layer
from gc_net.methods.base import Forward, HeatMapMethod, TrainingBatches, Unsuitable


class CAM(HeatMapMethod):
    """Σ_k w_k f_k: the trunk's channels, weighted as the class weighs their averages.

    Only defined for a head with an average (or maximum) over positions and one linear layer.
    """

    name = "cam"
    title = "CAM"
    level = 0.2  # of the maximum, as in Zhou et al.

    def check(self, classifier: Classifier) -> None:
        pooled_kernel(classifier)

    def fit(self, classifier: Classifier, training_batches: TrainingBatches) -> None:
        self._kernel = pooled_kernel(classifier)  # [C, num_classes]

    def localize(self, forward: Forward) -> tf.Tensor:
        weights = tf.gather(tf.transpose(self._kernel), forward.labels)  # [B, C]
        features = tf.cast(forward.features, weights.dtype)
        return tf.einsum("bhwc,bc->bhw", features, weights)


def pooled_kernel(classifier: Classifier) -> tf.Tensor:
    """Return the weights [C, num_classes] of a head with pooling and one linear layer."""
    try:
        return tf.convert_to_tensor(outputs_layer(classifier).kernel)
    except ValueError as error:
        raise Unsuitable(str(error)) from None
