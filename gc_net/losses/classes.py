"""The loss of classifiers."""

from typing import Any

import keras
from keras import ops

from gc_net.losses.terms import cross_entropy


@keras.saving.register_keras_serializable(package="gc_net")
class ClassLoss(keras.losses.Loss):
    """Cross-entropy of an image's logits [B, C] and the labels [B].

    Args:
        smoothing: Part of each label that is spread evenly over all classes.
    """

    def __init__(self, smoothing: float = 0.0, name: str = "class", **kwargs: Any):
        super().__init__(name=name, **kwargs)
        self.smoothing = smoothing

    def call(self, y_true, y_pred):
        loss = cross_entropy(y_true, y_pred)
        if not self.smoothing:
            return loss
        spread = -ops.mean(ops.log_softmax(ops.cast(y_pred, "float32"), axis=-1), axis=-1)
        return (1.0 - self.smoothing) * loss + self.smoothing * spread

    def get_config(self):
        return {**super().get_config(), "smoothing": self.smoothing}
