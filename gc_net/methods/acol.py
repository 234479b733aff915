"""Adversarial complementary learning, ACoL (Zhang et al., CVPR 2018)."""

from collections.abc import Sequence

import keras
import tensorflow as tf
from keras import layers

from gc_net.backbones.base import Backbone
from gc_net.classifier import Classifier
from gc_net.methods.base import Forward, HeatMapMethod, TrainingBatches
from gc_net.methods.training import ClassifierTraining

ERASED_ABOVE = 0.6  # of the first branch's normalized map
CHANNELS = 256


class TwoBranches(keras.Model):
    """The head: two branches of convolutions, each to a map [B, h, w] of every class.

    Its logits are the first branch's. The second branch sees what the first has not found.
    """

    def __init__(
        self, backbone: Backbone, num_outputs: int, feature_shape: Sequence[int], name: str = "head"
    ):
        super().__init__(name=name)
        self.first = _branch(num_outputs, feature_shape, "first")
        self.second = _branch(num_outputs, feature_shape, "second")
        self.built = True

    def call(self, features: tf.Tensor, training: bool = False) -> tf.Tensor:
        return tf.reduce_mean(self.first(features, training=training), axis=(1, 2))

    def branches(
        self, features: tf.Tensor, labels: tf.Tensor, training: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the maps [B, h, w, C] of both branches, for images of known classes [B]."""
        first = self.first(features, training=training)
        return first, self.complement(features, first, labels, training)

    def complement(
        self, features: tf.Tensor, first: tf.Tensor, labels: tf.Tensor, training: bool = False
    ) -> tf.Tensor:
        """Return the second branch's maps, given the first's."""
        kept = tf.cast(normalized(class_maps(first, labels)) <= ERASED_ABOVE, features.dtype)
        return self.second(features * kept[..., None], training=training)


def _branch(num_classes, feature_shape, name):
    x = inputs = keras.Input(tuple(feature_shape))
    for number in (1, 2):
        x = layers.Conv2D(CHANNELS, 3, padding="same", activation="relu", name=f"conv{number}")(x)
    return keras.Model(
        inputs, layers.Conv2D(num_classes, 1, dtype="float32", name="outputs")(x), name=name
    )


def class_maps(maps: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Return the maps [B, h, w] of each image's class from those of all, [B, h, w, C]."""
    return tf.gather(tf.transpose(maps, (0, 3, 1, 2)), labels, batch_dims=1)


def normalized(maps: tf.Tensor) -> tf.Tensor:
    """Return maps [B, h, w] scaled so that each has its lowest value at 0 and its highest at 1."""
    low = tf.reduce_min(maps, axis=(1, 2), keepdims=True)
    high = tf.reduce_max(maps, axis=(1, 2), keepdims=True)
    return tf.math.divide_no_nan(maps - low, high - low)


class Complementary(ClassifierTraining):
    """Both branches learn the class, the second from the features that the first did not use."""

    def outputs(self, normalized: tf.Tensor, training: bool) -> dict[str, tf.Tensor]:
        features = self.classifier.trunk(normalized, training=training)
        first = self.classifier.head.first(features, training=training)
        return {"features": features, "first": first, "logits": tf.reduce_mean(first, axis=(1, 2))}

    def class_loss(self, labels: tf.Tensor, outputs: dict[str, tf.Tensor]) -> tf.Tensor:
        # Only here, because the classes must be known.
        features, first = outputs["features"], outputs["first"]
        second = self.classifier.head.complement(features, first, labels, training=True)
        second = tf.reduce_mean(second, axis=(1, 2))
        return self.loss.call(labels, outputs["logits"]) + self.loss.call(labels, second)


class ACoL(HeatMapMethod):
    """Two classifiers on the same features; the second cannot see the findings of the first.

    If the first branch's normalized map of the true class exceeds 0.6, features are set to zero for
    the second branch, which then has to find other parts. The map is the maximum of both. Differs
    from the paper: branches have 256 channels instead of 1,024, for speed on light backbones.
    """

    name = "acol"
    title = "ACoL"
    level = 0.2  # as CAM; the paper does not say
    head = "acol"
    training = Complementary

    def fit(self, classifier: Classifier, training_batches: TrainingBatches) -> None:
        self._head = classifier.head

    def localize(self, forward: Forward) -> tf.Tensor:
        both = self._head.branches(forward.features, forward.labels)
        first, second = (normalized(class_maps(maps, forward.labels)) for maps in both)
        return tf.maximum(first, second)
