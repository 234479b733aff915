"""A small network of plain convolutions, trained from scratch within minutes on a CPU."""

import keras

from gc_net.backbones import layers
from gc_net.backbones.base import Backbone

# Channels and stride of each convolution.
CONVOLUTIONS = ((16, 2), (32, 2), (64, 2), (64, 1), (64, 1))


class Small(Backbone):
    """Five convolutions with BatchNorm, to a map of 64 channels at stride 8.

    For small images of which there are many, such as drawn ones. A position of the map sees
    47 pixels of the image. Has no ImageNet weights.
    """

    name = "small"
    image_size = 64
    descriptor_layer = "relu5"
    feature_layers = ("relu1", "relu2", "relu5")

    def normalizer(self):
        return layers.normalizer(mean=127.0, std=128.0)

    def trunk(self, image_size, name="trunk"):
        x = inputs = keras.Input((image_size, image_size, 3), name="images")
        for index, (filters, strides) in enumerate(CONVOLUTIONS, 1):
            x = keras.layers.Conv2D(
                filters,
                3,
                strides=strides,
                padding="same",
                use_bias=False,
                kernel_initializer="he_normal",
                name=f"conv{index}",
            )(x)
            x = keras.layers.BatchNormalization(momentum=0.9, name=f"bn{index}")(x)
            x = keras.layers.ReLU(name=f"relu{index}")(x)
        return keras.Model(inputs, x, name=name)

    def head(self, num_outputs, feature_shape, name="head"):
        return layers.pooled_head(num_outputs, feature_shape, dropout=0.2, name=name)

    def imagenet_weights(self, with_head):
        raise ValueError(
            "The backbone 'small' has no ImageNet weights. Pass `weights=None` (--weights=none) to "
            "train it from scratch, or choose another backbone."
        )
