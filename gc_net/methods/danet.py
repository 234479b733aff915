"""Divergent activation, DA-Net (Xue et al., ICCV 2019)."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
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
        self.maps = divergent_maps(num_outputs, feature_shape, "maps")  # to [B, h, w, C, K]
        self.built = True

    def call(self, features: tf.Tensor, training: bool = False) -> tf.Tensor:
        return pooled(self.maps(features, training=training))


class Divergent(ClassifierTraining):
    """The maps of an image's class must look at different places.

    If classes have families, this also holds for the maps of its family: common features of a
    family are rarely the part that distinguishes its classes.
    """

    def __init__(self, classifier: Classifier, *args: Any, **kwargs: Any):
        super().__init__(classifier, *args, **kwargs)
        self.family_maps = None
        if self.class_families is not None:
            names, self.family_of_class = np.unique(self.class_families, return_inverse=True)
            # With one class in each family, the classes would be learned twice.
            if 1 < len(names) < len(self.class_families):
                shape = classifier.trunk.output.shape[1:]
                self.family_maps = divergent_maps(len(names), shape, "family_maps")

    def outputs(self, normalized: tf.Tensor, training: bool) -> dict[str, tf.Tensor]:
        features = self.classifier.trunk(normalized, training=training)
        maps = self.classifier.head.maps(features, training=training)
        outputs = {"logits": pooled(maps), "maps": maps}
        if self.family_maps is not None:
            outputs["family_maps"] = self.family_maps(features, training=training)
        return outputs

    def class_loss(self, labels: tf.Tensor, outputs: dict[str, tf.Tensor]) -> tf.Tensor:
        own = class_maps(outputs["maps"], labels)
        loss = super().class_loss(labels, outputs) + WEIGHT * similarity(own)
        if self.family_maps is not None:
            maps = outputs["family_maps"]
            families = tf.gather(tf.constant(self.family_of_class, tf.int32), labels)
            loss += self.loss.call(families, pooled(maps))
            loss += WEIGHT * similarity(class_maps(maps, families))
        return loss


def divergent_maps(num_classes: int, feature_shape: Sequence[int], name: str) -> keras.Model:
    """Return a network from features [B, h, w, C] to maps [B, h, w, num_classes, K]."""
    inputs = keras.Input(tuple(feature_shape))
    x = layers.Conv2D(num_classes * NUM_MAPS, 1, dtype="float32", name="outputs")(inputs)
    x = layers.Reshape((*x.shape[1:3], num_classes, NUM_MAPS))(x)
    return keras.Model(inputs, x, name=name)


def pooled(maps: tf.Tensor) -> tf.Tensor:
    """Return the logits [B, C] of maps [B, h, w, C, K]: means over maps and positions."""
    return tf.reduce_mean(maps, axis=(1, 2, 4))


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
    """Several different maps for each class, which together cover more of the object.

    This is the paper's discrepant divergent activation: the mean cosine between the maps of the
    true class is a term of the loss. If the dataset has families of classes, a classifier of
    families is another term, the hierarchical part; in CUB the last word of a name is the family.
    Differs from the paper: one level above the classes instead of several of a taxonomy; family
    maps teach the features in training only, while the paper joins them with the class maps; four
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
