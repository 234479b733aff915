"""Divergent activation, DA-Net (Xue et al., ICCV 2019)."""

from collections.abc import Sequence

import keras
import tensorflow as tf
from keras import layers

from gc_net.backbones.base import Backbone
from gc_net.classifier import Classifier
from gc_net.methods.base import Forward, HeatMapMethod, TrainingBatches
from gc_net.methods.training import ClassifierTraining

NUM_MAPS = 4  # of each class
WEIGHT = 0.01  # of the discrepancy in the loss


class DivergentMaps(keras.Model):
    """The head: several maps of every class, whose mean over maps and positions is the logit."""

    def __init__(
        self, backbone: Backbone, num_outputs: int, feature_shape: Sequence[int], name: str = "head"
    ):
        super().__init__(name=name)
        inputs = keras.Input(tuple(feature_shape))
        x = layers.Conv2D(num_outputs * NUM_MAPS, 1, dtype="float32", name="outputs")(inputs)
        x = layers.Reshape((*x.shape[1:3], num_outputs, NUM_MAPS))(x)
        self.maps = keras.Model(inputs, x, name="maps")  # to [B, h, w, C, K]
        self.built = True

    def call(self, features: tf.Tensor, training: bool = False) -> tf.Tensor:
        return tf.reduce_mean(self.maps(features, training=training), axis=(1, 2, 4))


class Divergent(ClassifierTraining):
    """The maps of an image's class must look at different places."""

    def outputs(self, normalized: tf.Tensor, training: bool) -> dict[str, tf.Tensor]:
        features = self.classifier.trunk(normalized, training=training)
        maps = self.classifier.head.maps(features, training=training)
        return {"logits": tf.reduce_mean(maps, axis=(1, 2, 4)), "maps": maps}

    def class_loss(self, labels: tf.Tensor, outputs: dict[str, tf.Tensor]) -> tf.Tensor:
        own = class_maps(outputs["maps"], labels)
        return super().class_loss(labels, outputs) + WEIGHT * similarity(own)


def class_maps(maps: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Return the maps [B, K, h, w] of each image's class from those of all, [B, h, w, C, K]."""
    return tf.gather(tf.transpose(maps, (0, 3, 4, 1, 2)), labels, batch_dims=1)


def similarity(maps: tf.Tensor) -> tf.Tensor:
    """Return the mean cosine [B] between any two of an image's maps [B, K, h, w], ReLU first."""
    flat = tf.nn.relu(tf.reshape(maps, [tf.shape(maps)[0], maps.shape[1], -1]))
    flat = tf.math.l2_normalize(flat, axis=-1)
    cosines = tf.matmul(flat, flat, transpose_b=True)  # [B, K, K]
    count = maps.shape[1]
    others = cosines * (1 - tf.eye(count))
    return tf.reduce_sum(others, axis=(1, 2)) / (count * (count - 1))


class DANet(HeatMapMethod):
    """Several maps for each class that are kept from being alike, so that together they see more.

    The discrepant divergent activation of the paper: the mean cosine between the maps of the true
    class is a term of the loss. Differs from the paper: its second part, one more classifier for
    each level of a hierarchy of classes, is left out, as datasets here have no hierarchy yet; four
    maps a class.
    """

    name = "danet"
    title = "DA-Net"
    level = 0.2  # as CAM
    head = "danet"
    training = Divergent

    def fit(self, classifier: Classifier, training_batches: TrainingBatches) -> None:
        self._maps = classifier.head.maps

    def localize(self, forward: Forward) -> tf.Tensor:
        own = class_maps(self._maps(forward.features, training=False), forward.labels)
        return tf.reduce_mean(own, axis=1)
