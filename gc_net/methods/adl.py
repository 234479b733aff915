"""Attention-based dropout layers, ADL (Choe and Shim, CVPR 2019)."""

from typing import Any

import keras
import tensorflow as tf

from gc_net.classifier import Classifier
from gc_net.methods.cam import CAM
from gc_net.methods.training import ClassifierTraining

DROP_RATE = 0.75  # how often the strongest part is dropped; otherwise it is made stronger
THRESHOLD = 0.8  # of an image's strongest attention, above which it is dropped


class AttentionDropout(keras.layers.Layer):
    """Randomly hides the strongest positions of a feature map, or highlights them.

    Attention is the mean over channels. The layer has no weights and is active only in training.

    Args:
        seeds: A seed generator.
    """

    def __init__(self, seeds: keras.random.SeedGenerator, **kwargs: Any):
        super().__init__(**kwargs)
        self.seeds = seeds
        self.built = True

    def call(self, features: tf.Tensor, training: bool = False) -> tf.Tensor:
        if not training:
            return features
        drops = keras.random.uniform((), seed=self.seeds) < DROP_RATE
        attention = tf.reduce_mean(features, axis=-1, keepdims=True)  # [B, h, w, 1]
        mask = tf.where(drops, drop_mask(attention), tf.sigmoid(attention))
        return features * tf.cast(mask, features.dtype)


def drop_mask(attention: tf.Tensor) -> tf.Tensor:
    """Return 0 where attention [B, h, w, 1] exceeds the threshold, and 1 elsewhere."""
    highest = tf.reduce_max(attention, axis=(1, 2), keepdims=True)
    return tf.cast(attention <= THRESHOLD * highest, attention.dtype)


class AttentionTraining(ClassifierTraining):
    """The trunk has dropout layers after the last map of each of its three last resolutions."""

    def __init__(self, classifier: Classifier, *args: Any, **kwargs: Any):
        super().__init__(classifier, *args, **kwargs)
        places = classifier.backbone.feature_layers
        self.dropout = [AttentionDropout(self.seeds, name=f"adl_{name}") for name in places]
        self.trunk = self.inserted(dict(zip(places, self.dropout, strict=True)))

    def outputs(self, normalized: tf.Tensor, training: bool) -> dict[str, tf.Tensor]:
        features = self.trunk(normalized, training=training)
        return {"logits": self.classifier.head(features, training=training)}


class ADL(CAM):
    """CAM of a classifier whose strongest features were dropped at random.

    In three out of four steps, positions whose attention exceeds 0.8 of the image's highest are set
    to zero, so that others must contribute. In the fourth step, the map is multiplied by the
    sigmoid of its attention, which keeps the accuracy high. Both are as in the paper. The layers
    act after the last map of each of the three coarsest resolutions, as in the paper's VGG (pool3,
    pool4, conv5_3).
    """

    name = "adl"
    title = "ADL"
    training = AttentionTraining
