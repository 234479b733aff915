"""A network of a few thousand parameters, for tests and for trying out a pipeline in seconds."""

import keras

from gc_net.backbones import layers
from gc_net.backbones.base import Backbone


class Tiny(Backbone):
    """Three strided convolutions with BatchNorm, to a map at stride 8. Has no ImageNet weights."""

    name = "tiny"
    image_size = 32
    descriptor_layer = "relu3"
    feature_layers = ("relu1", "relu2", "relu3")

    def normalizer(self):
        return layers.normalizer(mean=127.0, std=128.0)

    def trunk(self, image_size, name="trunk"):
        x = inputs = keras.Input((image_size, image_size, 3), name="images")
        for index, filters in enumerate((8, 16, 32), 1):
            x = keras.layers.Conv2D(
                filters, 3, strides=2, padding="same", use_bias=False, name=f"conv{index}"
            )(x)
            x = keras.layers.BatchNormalization(momentum=0.9, name=f"bn{index}")(x)
            x = keras.layers.ReLU(name=f"relu{index}")(x)
        return keras.Model(inputs, x, name=name)

    def head(self, num_outputs, feature_shape, name="head"):
        return layers.pooled_head(num_outputs, feature_shape, dropout=0.2, name=name)

    def imagenet_weights(self, with_head):
        raise ValueError(
            "The backbone 'tiny' has no ImageNet weights. Pass `weights=None` (--weights=none) to "
            "train it from scratch, or choose another backbone."
        )
