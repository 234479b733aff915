"""How a method trains its classifier: what it does to images, trunk, outputs and loss.

`MaskedClassifier` is plain fine-tuning. A method that does more has a subclass of
`ClassifierTraining` in its file, which overrides one hook or two. The network that is trained stays
a `Classifier`, and is saved as one: what only training needs is left behind.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from gc_net.classifier import Classifier
from gc_net.training.masked_classifier import MaskedClassifier
from gc_net.training.masks import RandomMasks, ReplicaSeeds


class ClassifierTraining(MaskedClassifier):
    """A classifier in training, with hooks.

    Args:
        classifier: The `Classifier` to train.
        masks: A `RandomMasks` layer, or None.
        seed: Of what the method draws; the generator's state is a variable of the model.
        families: Name of the family of each class, for a method that learns a hierarchy, or None.
    """

    def __init__(
        self,
        classifier: Classifier,
        masks: RandomMasks | None = None,
        seed: int = 0,
        families: Sequence[str] | None = None,
        **kwargs: Any,
    ):
        super().__init__(classifier, masks, **kwargs)
        self.class_families = families
        self.seeds = ReplicaSeeds(seed)
        self._mean = _Mean(name="mean")

    # The hooks.

    def augment(self, normalized: tf.Tensor) -> tuple[tf.Tensor, dict[str, Any]]:
        """Return normalized training images, changed, and what the loss must know about it."""
        return normalized, {}

    def outputs(self, normalized: tf.Tensor, training: bool) -> dict[str, Any]:
        """Run the network; return its `"logits"` [B, C], and what else the loss is made from."""
        return {"logits": self.classifier.from_normalized(normalized, training=training)}

    def class_loss(self, labels: tf.Tensor, outputs: dict[str, Any]) -> tf.Tensor:
        """Return the loss of each image, [B]."""
        return self.loss.call(labels, outputs["logits"])

    # How they are put together.

    def call(self, images, training=False):
        normalized = self.normalized(images, training=training)
        noted = {}
        if training:
            normalized, noted = self.augment(normalized)
        return {**self.outputs(normalized, training), **noted}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return self._mean(y, self.class_loss(y, y_pred), sample_weight)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, y, y_pred["logits"], sample_weight)

    def inserted(self, layers: dict[str, keras.Layer]) -> keras.Model:
        """Return the classifier's trunk, with its weights, and with layers behind those named."""

        def call(layer, *args, **kwargs):
            outputs = layer(*args, **kwargs)
            return layers[layer.name](outputs) if layer.name in layers else outputs

        return keras.models.clone_model(
            self.classifier.trunk, clone_function=lambda layer: layer, call_function=call
        )


class _Mean(keras.losses.Loss):
    """The mean over a batch of values that are losses already, as Keras takes it of its own."""

    def call(self, y_true, y_pred):
        return y_pred
