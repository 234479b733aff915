"""Class activation maps (Zhou et al., CVPR 2016)."""

import keras
import tensorflow as tf

from gc_net.classifier import Classifier
from gc_net.methods.base import Forward, HeatMapMethod, TrainingBatches, Unsuitable

_POOLS = (keras.layers.GlobalAveragePooling2D, keras.layers.GlobalMaxPooling2D)


class CAM(HeatMapMethod):
    """Σ_k w_k f_k: the trunk's channels, weighted as the class weighs their averages.

    Only defined where the head is an average (or maximum) over positions and one linear layer.
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
    """Return the weights [C, num_classes] of a head that pools and then weighs."""
    layers = [
        layer
        for layer in classifier.head.layers
        if not isinstance(layer, (keras.layers.InputLayer, keras.layers.Dropout))
    ]
    kinds = [type(layer) for layer in layers]
    if kinds not in ([pool, keras.layers.Dense] for pool in _POOLS):
        found = ", ".join(layer.name for layer in layers)
        raise Unsuitable(
            "class activation maps need a head that pools over all positions and has one "
            f"linear layer. The {classifier.head_name!r} head of {classifier.backbone.name!r} "
            f"has the layers {found}. Grad-CAM works with every head."
        )
    return tf.convert_to_tensor(layers[1].kernel)
