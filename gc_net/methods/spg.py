"""Self-produced guidance, SPG (Zhang et al., ECCV 2018)."""

from typing import Any

import keras
import tensorflow as tf
from keras import layers

from gc_net.classifier import Classifier
from gc_net.methods.acol import class_maps, normalized
from gc_net.methods.cam import CAM, pooled_kernel
from gc_net.methods.training import ClassifierTraining

CHANNELS = 64
# Cells of a map above the first value are object, below the second background; others do not count.
FROM_ATTENTION, FROM_HIGHER, FROM_BOTH = (0.7, 0.05), (0.5, 0.05), (0.7, 0.1)


class Guided(ClassifierTraining):
    """Two maps of the trunk and its features learn to tell object from background.

    The higher map is taught by the class map's most certain cells, the lower one by the higher, and
    the features by both.
    """

    def __init__(self, classifier: Classifier, *args: Any, **kwargs: Any):
        super().__init__(classifier, *args, **kwargs)
        trunk = classifier.trunk
        taps = [trunk.get_layer(name).output for name in classifier.backbone.feature_layers[:2]]
        self.trunk = keras.Model(trunk.inputs, [*taps, trunk.output])
        shapes = [tap.shape[1:] for tap in self.trunk.outputs]
        self.branches = [
            _branch(shape, name) for shape, name in zip(shapes, ("b2", "b1", "c"), strict=True)
        ]

    def outputs(self, normalized: tf.Tensor, training: bool) -> dict[str, tf.Tensor]:
        maps = self.trunk(normalized, training=training)
        logits = self.classifier.head(maps[-1], training=training)
        lower, higher, last = (
            branch(each, training=training)
            for branch, each in zip(self.branches, maps, strict=True)
        )
        return {
            "logits": logits, "features": maps[-1], "lower": lower, "higher": higher, "last": last
        }  # fmt: skip

    def class_loss(self, labels: tf.Tensor, outputs: dict[str, tf.Tensor]) -> tf.Tensor:
        kernel = tf.cast(pooled_kernel(self.classifier), outputs["features"].dtype)
        attention = class_maps(outputs["features"] @ kernel, labels)
        lower, higher = outputs["lower"], outputs["higher"]
        both = (_resized(tf.sigmoid(lower), higher.shape[1]) + tf.sigmoid(higher)) / 2
        return (
            super().class_loss(labels, outputs)
            + guidance_loss(higher, seeds(normalized(attention), *FROM_ATTENTION, higher.shape[1]))
            + guidance_loss(lower, seeds(tf.sigmoid(higher), *FROM_HIGHER, lower.shape[1]))
            + guidance_loss(outputs["last"], seeds(both, *FROM_BOTH, outputs["last"].shape[1]))
        )


def _branch(feature_shape, name):
    x = inputs = keras.Input(tuple(feature_shape))
    for number in (1, 2):
        x = layers.Conv2D(CHANNELS, 3, padding="same", activation="relu", name=f"conv{number}")(x)
    x = layers.Conv2D(1, 1, dtype="float32", name="guidance")(x)
    return keras.Model(inputs, layers.Reshape(x.shape[1:3])(x), name=f"spg_{name}")


def seeds(maps: tf.Tensor, above: float, below: float, size: int) -> tf.Tensor:
    """Return 1 where maps [B, h, w] in 0–1 exceed `above`, 0 below `below`, and −1 between.

    Maps are first enlarged to [B, size, size]. They teach, so no gradient flows back into them.
    """
    maps = tf.stop_gradient(_resized(maps, size))
    return tf.where(maps > above, 1.0, tf.where(maps < below, 0.0, -1.0))


def guidance_loss(logits: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
    """Return the cross-entropy of each image [B] at the cells that `seeds` knows."""
    known = tf.cast(seeds >= 0, tf.float32)
    values = tf.nn.sigmoid_cross_entropy_with_logits(labels=known * seeds, logits=logits)
    total = tf.reduce_sum(known * values, axis=(1, 2))
    return tf.math.divide_no_nan(total, tf.reduce_sum(known, axis=(1, 2)))


def _resized(maps, size):
    return tf.image.resize(maps[..., None], (size, size))[..., 0]


class SPG(CAM):
    """CAM of a classifier whose features learn from its own maps where the object is.

    A class map's strongest cells are object and its weakest background, with the thresholds of the
    authors' code. Differs from the paper: branches have 64 channels and their own weights, and come
    after the two last resolutions but one of any trunk.
    """

    name = "spg"
    title = "SPG"
    training = Guided
