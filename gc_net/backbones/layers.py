"""Pieces that more than one backbone is built from."""

from collections.abc import Sequence

import keras

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
