"""Heads on the end of a trunk."""

from typing import TYPE_CHECKING

import keras
from keras import layers

from gc_net.backbones.layers import BatchNormalization, outputs

if TYPE_CHECKING:
    from gc_net.backbones.base import Backbone


def native(backbone: "Backbone", num_outputs: int, feature_shape: tuple[int, ...]) -> keras.Model:
    """Return the original head of the backbone."""
    return backbone.head(num_outputs, feature_shape)


def position(backbone: "Backbone", num_outputs: int, feature_shape: tuple[int, ...]) -> keras.Model:
    """Return a head that keeps positions: 64 channels, flattened.

    Most native heads take an average over all positions, which loses the place of an object.
    """
    inputs = keras.Input(tuple(feature_shape), name="features")
    x = layers.Conv2D(64, 1, kernel_initializer="he_normal", name="squeeze")(inputs)
    x = BatchNormalization(name="squeeze_bn")(x)
    x = layers.ReLU(name="squeeze_relu")(x)
    x = layers.Flatten(name="flatten")(x)
    return keras.Model(inputs, outputs(num_outputs)(x), name="head")


def maximum(backbone: "Backbone", num_outputs: int, feature_shape: tuple[int, ...]) -> keras.Model:
    """Return a head of each channel's maximum over all positions and one linear layer."""
    inputs = keras.Input(tuple(feature_shape), name="features")
    x = layers.GlobalMaxPooling2D(name="pool")(inputs)
    return keras.Model(inputs, outputs(num_outputs)(x), name="head")
