"""The terms of a detector's loss: the paper's three.

A term is a Keras loss: it returns one value per image, and Keras takes the mean. Under
    tf.distribute, Keras also divides by the number of replicas. A mean inside a train step would
    count once per replica.
"""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops


class LossTerm(keras.losses.Loss):
    """One term of the loss that trains a detector.

    Subclasses list in `needs` the outputs of `GCNet.supervise` that they use. Outputs that no term
    needs are not computed. Register a term in `gc_net.losses.LOSS_TERMS`.

    Example:
        class Elongation(LossTerm):
            needs = ("coefficients",)

            def call(self, labels, outputs):
                extents = outputs["coefficients"][:, 2:4]
                return ops.max(extents, axis=-1) - ops.min(extents, axis=-1)

        LOSS_TERMS.register("elongation", Elongation)
        GCNet(..., loss_weights={"area": 1.0, "object": 1.0, "elongation": 0.1})
    """

    needs: tuple[str, ...] = ()

    def call(self, labels: Any, outputs: Mapping[str, Any]) -> Any:
        """Return one value per image, [B].

        Args:
            labels: [B] integers.
            outputs: Outputs of `GCNet.supervise`, at least those that the term needs.
        """
        raise NotImplementedError


class AreaLoss(LossTerm):
    """The shape's area term, L_a = a·b. Eq. (area_loss)."""

    needs = ("area",)

    def call(self, labels, outputs):
        return outputs["area"]


class ObjectLoss(LossTerm):
    """Cross-entropy of the object image's logits [B, C] and the labels. Eq. (objectloss)."""

    needs = ("object",)

    def call(self, labels, outputs):
        return cross_entropy(labels, outputs["object"])


class BackgroundLoss(LossTerm):
    """Negative entropy of the background image's logits [B, C]. Eq. (backgroundloss).

    It lies between −ln C (a pure guess) and 0 (certainty).
    """

    needs = ("background",)

    def call(self, labels, outputs):
        log_probabilities = ops.log_softmax(ops.cast(outputs["background"], "float32"), axis=-1)
        # p·log p from the logarithm, so that a probability which underflows to 0 gives 0, not NaN.
        return ops.sum(ops.exp(log_probabilities) * log_probabilities, axis=-1)


def cross_entropy(labels: Any, logits: Any) -> Any:
    """Return the cross-entropy [B] of logits [B, C] and integer labels [B]."""
    labels = ops.cast(ops.reshape(labels, (-1,)), "int32")
    logits = ops.cast(logits, "float32")
    return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
