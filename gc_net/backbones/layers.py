"""Pieces that more than one backbone is built from."""

from collections.abc import Sequence

import keras
import tensorflow as tf
from keras import ops

IMAGENET_MEAN = (123.675, 116.28, 103.53)  # RGB, 0–255: torchvision's .485 .456 .406
IMAGENET_STD = (58.395, 57.12, 57.375)  # torchvision's .229 .224 .225


def normalizer(mean: float | Sequence[float], std: float | Sequence[float]) -> keras.layers.Layer:
    """Return a layer (x − mean) / std; both on the scale 0–255, per channel or one for all.

    Interpolated pixels keep their precision under `mixed_bfloat16`: float32 is used throughout.
    """
    if isinstance(mean, (list, tuple)):
        scale = [1.0 / deviation for deviation in std]
        offset = [-centre / deviation for centre, deviation in zip(mean, std, strict=True)]
    else:
        scale, offset = 1.0 / std, -mean / std
    return keras.layers.Rescaling(scale, offset, dtype="float32", name="normalizer")


def imagenet_normalizer() -> keras.layers.Layer:
    """Return torchvision's normalisation, by the mean and deviation of ImageNet's pixels."""
    return normalizer(IMAGENET_MEAN, IMAGENET_STD)


@keras.saving.register_keras_serializable(package="gc_net")
class BatchNormalization(keras.layers.BatchNormalization):
    """Keras' layer, which in training runs as one operation of TensorFlow's each way.

    Keras' own takes a dozen, each of them a pass over the map, and two to three times as long on a
    CPU. Weights, statistics and outputs are the same but for rounding.
    """

    def call(self, inputs, training=None, mask=None):
        is_map = len(inputs.shape) == 4 and self.axis in (-1, 3)
        if not (training and self.trainable and is_map) or self.synchronized or self.renorm:
            return super().call(inputs, training=training, mask=mask)
        channels = inputs.shape[-1]
        normalized = tf.raw_ops.FusedBatchNormV3(
            x=ops.cast(inputs, "float32"),
            scale=tf.ones([channels]) if self.gamma is None else self.gamma.value,
            offset=tf.zeros([channels]) if self.beta is None else self.beta.value,
            mean=tf.zeros([0]),
            variance=tf.zeros([0]),
            epsilon=self.epsilon,
            is_training=True,
        )
        # The operation gives an estimate for all images there are, Keras keeps that of the batch.
        count = tf.cast(tf.size(inputs) / channels, "float32")
        variance = normalized.batch_variance * (count - 1.0) / count
        for moving, now in (
            (self.moving_mean, normalized.batch_mean),
            (self.moving_variance, variance),
        ):
            moving.assign(moving * self.momentum + now * (1.0 - self.momentum))
        return ops.cast(normalized.y, self.compute_dtype)


def outputs(num_outputs: int) -> keras.layers.Layer:
    """Return the last layer of a head: `num_outputs` raw values in float32.

    A narrow initial spread has a fresh classifier start undecided, and a fresh detector in the
    middle of the image.
    """
    return keras.layers.Dense(
        num_outputs,
        kernel_initializer=keras.initializers.RandomNormal(stddev=0.01),
        dtype="float32",
        name="outputs",
    )


def pooled_head(
    num_outputs: int, feature_shape: tuple[int, ...], dropout: float, name: str
) -> keras.Model:
    """Return a head: average over all positions, dropout, outputs."""
    inputs = keras.Input(tuple(feature_shape), name="features")
    x = keras.layers.GlobalAveragePooling2D(name="pool")(inputs)  # [B, C]
    x = keras.layers.Dropout(dropout, name="dropout")(x)
    return keras.Model(inputs, outputs(num_outputs)(x), name=name)
