"""The loss of a head of edges: the distance of its edges, and its mask."""

from typing import Any

import keras
from keras import ops

# Smaller objects count as this large, so that no distance grows without bound.
_SMALLEST = 0.05


@keras.saving.register_keras_serializable(package="gc_net")
class EdgeLoss(keras.losses.Loss):
    """2·L1 + (1 − GIoU) + 2·cross-entropy of each image.

    L1 is the mean distance of the four edges in units of the object's own width and height. So a
    pixel counts more for a small object, as in the overlap. The generalized IoU (Rezatofighi et
    al., 2019) is close to the final metric. The cross-entropy teaches the mask.

    `call` takes dicts of `"edges"`, [B, 4] left, top, right, bottom relative to the image, and
    `"mask"`, [B, S, S]: probabilities in the target, logits in the prediction.
    """

    def __init__(self, name: str = "edges", **kwargs: Any):
        super().__init__(name=name, **kwargs)

    def call(self, y_true, y_pred):
        shown, found = (ops.cast(each["edges"], "float32") for each in (y_true, y_pred))
        size = ops.maximum(shown[:, 2:] - shown[:, :2], _SMALLEST)
        distance = ops.abs(found - shown) / ops.concatenate([size, size], axis=-1)
        masks, logits = (ops.cast(each["mask"], "float32") for each in (y_true, y_pred))
        entropy = ops.binary_crossentropy(masks, logits, from_logits=True)
        return (
            2 * ops.mean(distance, axis=-1)
            + 1
            - generalized_iou(found, shown)
            + 2 * ops.mean(entropy, axis=(1, 2))
        )


def generalized_iou(one: Any, other: Any) -> Any:
    """Return the generalized IoU [B] of boxes [B, 4], xyxy; a box with swapped ends has no area."""
    low = ops.maximum(one[:, :2], other[:, :2])
    high = ops.minimum(one[:, 2:], other[:, 2:])
    intersection = ops.prod(ops.maximum(high - low, 0.0), axis=-1)
    areas = [ops.prod(ops.maximum(each[:, 2:] - each[:, :2], 0.0), -1) for each in (one, other)]
    union = areas[0] + areas[1] - intersection
    around = ops.maximum(one[:, 2:], other[:, 2:]) - ops.minimum(one[:, :2], other[:, :2])
    around = ops.prod(around, axis=-1)
    return intersection / (union + 1e-6) - (around - union) / (around + 1e-6)
