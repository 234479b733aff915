"""The paper's losses, one value per image, so that Keras reduces them as it does its own.

Keras divides such losses by the number of replicas under tf.distribute; a mean taken by hand
inside a train step would be counted once per replica.
"""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="gc_net")
class AreaLoss(keras.losses.Loss):
    """Mean of the shape's area term, L_a = a·b. Eq. (area_loss).

    `y_pred` is the area of each shape, [B]; `y_true` is not used.
    """

    def __init__(self, name="area", **kwargs):
        super().__init__(name=name, **kwargs)

    def call(self, y_true, y_pred):
        return ops.cast(y_pred, "float32")


@keras.saving.register_keras_serializable(package="gc_net")
class ObjectLoss(keras.losses.Loss):
    """Cross-entropy of the object image's logits [B, C] and the labels [B]. Eq. (objectloss)."""

    def __init__(self, name="object", **kwargs):
        super().__init__(name=name, **kwargs)

    def call(self, y_true, y_pred):
        logits = ops.cast(y_pred, "float32")
        labels = ops.cast(ops.reshape(y_true, (-1,)), "int32")
        return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


@keras.saving.register_keras_serializable(package="gc_net")
class BackgroundLoss(keras.losses.Loss):
    """Negative entropy of the background image's logits [B, C]. Eq. (backgroundloss).

    Lies between −ln C, no idea at all, and 0, certain. `y_true` is not used.
    """

    def __init__(self, name="background", **kwargs):
        super().__init__(name=name, **kwargs)

    def call(self, y_true, y_pred):
        log_probabilities = ops.log_softmax(ops.cast(y_pred, "float32"), axis=-1)
        # p·log p from the logarithm: a probability that underflows to 0 gives 0, not NaN.
        return ops.sum(ops.exp(log_probabilities) * log_probabilities, axis=-1)


@keras.saving.register_keras_serializable(package="gc_net")
class ClassLoss(ObjectLoss):
    """Cross-entropy of an image's logits [B, C] and the labels [B], as classifiers learn by.

    Args:
        smoothing: Part of each label that is spread evenly over all classes.
    """

    def __init__(self, smoothing=0.0, name="class", **kwargs):
        super().__init__(name=name, **kwargs)
        self.smoothing = smoothing

    def call(self, y_true, y_pred):
        loss = super().call(y_true, y_pred)
        if not self.smoothing:
            return loss
        spread = -ops.mean(ops.log_softmax(ops.cast(y_pred, "float32"), axis=-1), axis=-1)
        return (1.0 - self.smoothing) * loss + self.smoothing * spread

    def get_config(self):
        return {**super().get_config(), "smoothing": self.smoothing}


@keras.saving.register_keras_serializable(package="gc_net")
class OverlapLoss(keras.losses.Loss):
    """1 − 2·Σpg/(Σp² + Σg²) of each image: zero exactly where two soft masks are the same."""

    def __init__(self, name="overlap", **kwargs):
        super().__init__(name=name, **kwargs)

    def call(self, y_true, y_pred):
        masks, predictions = ops.cast(y_true, "float32"), ops.cast(y_pred, "float32")
        axes = tuple(range(1, len(masks.shape)))
        return _dice(masks, predictions, axes)


@keras.saving.register_keras_serializable(package="gc_net")
class DiceLoss(keras.losses.Loss):
    """1 − (2·Σpg + 1)/(Σp² + Σg² + 1) over the whole batch, as the authors train their generator.

    Args:
        smooth: Added above and below, so that empty masks have a defined loss.
    """

    def __init__(self, smooth=1.0, name="dice", **kwargs):
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

    Over a whole batch Dice hardly sees a tiny shape beside a large one, and where a tiny shape is
    missed altogether its gradient is nearly zero; the two other terms mend one each.
    """

    def __init__(self, smooth=1.0, name="mask", **kwargs):
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
