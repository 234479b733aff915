"""Networks of plain convolutions, without ImageNet weights."""

import keras

from gc_net.backbones import layers
from gc_net.backbones.base import Backbone


class PlainBackbone(Backbone):
    """Convolutions of 3 × 3 with BatchNorm and ReLU, one after the other.

    Attributes:
        convolutions: Channels and stride of each.
        kernel_initializer: That of their kernels.
    """

    convolutions: tuple[tuple[int, int], ...]
    kernel_initializer: str = "glorot_uniform"

    def normalizer(self):
        return layers.normalizer(mean=127.0, std=128.0)

    def trunk(self, image_size, name="trunk"):
        x = inputs = keras.Input((image_size, image_size, 3), name="images")
        for index, (filters, strides) in enumerate(self.convolutions, 1):
            x = keras.layers.Conv2D(
                filters,
                3,
                strides=strides,
                padding="same",
                use_bias=False,
                kernel_initializer=self.kernel_initializer,
                name=f"conv{index}",
            )(x)
            x = layers.BatchNormalization(momentum=0.9, name=f"bn{index}")(x)
            x = keras.layers.ReLU(name=f"relu{index}")(x)
        return keras.Model(inputs, x, name=name)

    def head(self, num_outputs, feature_shape, name="head"):
        return layers.pooled_head(num_outputs, feature_shape, dropout=0.2, name=name)

    def imagenet_weights(self, with_head):
        raise ValueError(
            f"The backbone {self.name!r} has no ImageNet weights. Pass `weights=None` "
            "(--weights=none) to train it from scratch, or choose another backbone."
        )
