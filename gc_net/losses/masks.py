"""Losses between masks, for generators and the warm-up of a detector."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="gc_net")
class OverlapLoss(keras.losses.Loss):
    """1 − 2·Σpg/(Σp² + Σg²) of each image: zero exactly where two soft masks are the same."""

    def __init__(self, name: str = "overlap", **kwargs: Any):
        super().__init__(name=name, **kwargs)

    def call(self, y_true, y_pred):
        masks, predictions = ops.cast(y_true, "float32"), ops.cast(y_pred, "float32")
        axes = tuple(range(1, len(masks.shape)))
        return _dice(masks, predictions, axes)


@keras.saving.register_keras_serializable(package="gc_net")
class DiceLoss(keras.losses.Loss):
    """1 − (2·Σpg + 1)/(Σp² + Σg² + 1) over the whole batch, the authors' loss of their generator.

    Args:
        smooth: Added above and below, so that empty masks have a defined loss.
    """

    def __init__(self, smooth: float = 1.0, name: str = "dice", **kwargs: Any):
        super().__init__(name=name, **kwargs)
        self.smooth = smooth

    def call(self, y_true, y_pred):
        masks, predictions = ops.cast(y_true, "float32"), ops.cast(y_pred, "float32")
        overlap = ops.sum(masks * predictions)
        total = ops.sum(ops.square(predictions)) + ops.sum(ops.square(masks))
        return 1.0 - (2.0 * overlap + self.smooth) / (total + self.smooth)

    def get_config(self):
        return {**super().get_config(), "smooth": self.smooth}


@keras.saving.register_keras_serializable(package="gc_net")
class MaskLoss(DiceLoss):
    """Dice over the batch, plus Dice over each image, plus binary cross-entropy.

    Over a whole batch, Dice hardly sees a tiny shape beside a large one. And if a tiny shape is
    missed completely, the gradient is nearly zero. Each of the other two terms fixes one of these.
    """

    def __init__(self, smooth: float = 1.0, name: str = "mask", **kwargs: Any):
        super().__init__(smooth=smooth, name=name, **kwargs)

    def call(self, y_true, y_pred):
        masks, predictions = ops.cast(y_true, "float32"), ops.cast(y_pred, "float32")
        axes = tuple(range(1, len(masks.shape)))
        each = _dice(masks, predictions, axes, self.smooth)  # [B]
        crossentropy = ops.mean(ops.binary_crossentropy(masks, predictions), axis=axes)
        return super().call(masks, predictions) + each + crossentropy


def _dice(masks, predictions, axes, smooth=0.0):
    """Return 1 − (2·Σpg + s)/(Σp² + Σg² + s), summed over `axes`."""
    overlap = ops.sum(masks * predictions, axis=axes)
    total = ops.sum(ops.square(predictions) + ops.square(masks), axis=axes)
    return 1.0 - (2.0 * overlap + smooth) / (total + smooth)
