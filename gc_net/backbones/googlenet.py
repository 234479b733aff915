"""GoogLeNet: Inception-v1 with batch normalisation, as torchvision publishes it.

It differs from Szegedy et al. (2015) in three ways: every convolution is followed by BatchNorm; the
branch that the paper gives 5×5 filters has 3×3 ones; pooling windows may hang over the right and
lower edge. The auxiliary classifiers, used in training from scratch only, are left out.
"""

import keras

from gc_net.backbones import layers
from gc_net.backbones.base import Backbone
from gc_net.backbones.torch_names import translate

# Filters of each module: 1×1; 3×3 reduction, 3×3; second 3×3 reduction, second 3×3; after the pool.
MODULES = {
    "inception3a": (64, 96, 128, 16, 32, 32),
    "inception3b": (128, 128, 192, 32, 96, 64),
    "inception4a": (192, 96, 208, 16, 48, 64),
    "inception4b": (160, 112, 224, 24, 64, 64),
    "inception4c": (128, 128, 256, 24, 64, 64),
    "inception4d": (112, 144, 288, 32, 64, 64),
    "inception4e": (256, 160, 320, 32, 128, 128),
    "inception5a": (256, 160, 320, 32, 128, 128),
    "inception5b": (384, 192, 384, 48, 128, 128),
}


class GoogLeNet(Backbone):
    """GoogLeNet; the trunk ends with the 1024 channels of `inception5b`, at stride 32.

    Images are normalized by ImageNet's mean and deviation. Its weights were trained on values in
    −1 to 1, and like torchvision's model the trunk begins by mapping the one onto the other.
    """

    name = "googlenet"
    image_size = 224
    descriptor_layer = "inception5b"
    feature_layers = ("inception3b", "inception4e", "inception5b")

    def normalizer(self):
        return layers.imagenet_normalizer()

    def trunk(self, image_size, name="trunk"):
        inputs = keras.Input((image_size, image_size, 3), name="images")
        x = _to_unit_range()(inputs)
        x = keras.layers.ZeroPadding2D(3, name="conv1_padding")(x)
        x = _conv(x, 64, 7, "conv1", strides=2, padding="valid")
        x = _pool(x, 3, name="maxpool1")
        x = _conv(x, 64, 1, "conv2")
        x = _conv(x, 192, 3, "conv3")
        x = _pool(x, 3, name="maxpool2")
        for module, filters in MODULES.items():
            x = _inception(x, *filters, name=module)
            if module == "inception3b":
                x = _pool(x, 3, name="maxpool3")
            elif module == "inception4e":
                x = _pool(x, 2, name="maxpool4")
        return keras.Model(inputs, x, name=name)

    def head(self, num_outputs, feature_shape, name="head"):
        return layers.pooled_head(num_outputs, feature_shape, dropout=0.2, name=name)

    def imagenet_weights(self, with_head):
        raise FileNotFoundError(
            "The ImageNet weights of 'googlenet' are published for PyTorch only. Download "
            "https://download.pytorch.org/models/googlenet-1378be20.pth, convert it with "
            "`gc-net convert_weights --backbone=googlenet --source=googlenet-1378be20.pth "
            "--output=googlenet.npz`, and pass weights='googlenet.npz'."
        )

    def torch_weights(self, state):
        """Translate the names of torchvision's GoogLeNet."""
        convolutions = ["conv1", "conv2", "conv3"]
        for module in MODULES:
            for branch in ("branch1", "branch2.0", "branch2.1", "branch3.0", "branch3.1"):
                convolutions.append(f"{module}.{branch}")
            convolutions.append(f"{module}.branch4.1")  # branch4.0 is the pool
        names = {
            f"{convolution}.{part}": f"trunk/{convolution.replace('.', '_')}_{part}"
            for convolution in convolutions
            for part in ("conv", "bn")
        }
        return translate(state, names | {"fc": "head/outputs"}, ignore=("aux1.", "aux2."))


def _to_unit_range():
    """Map values normalized by ImageNet's mean and deviation to the range −1 to 1."""
    mean, std = layers.IMAGENET_MEAN, layers.IMAGENET_STD
    return keras.layers.Rescaling(
        [deviation / 127.5 for deviation in std],
        [centre / 127.5 - 1.0 for centre in mean],
        dtype="float32",
        name="transform_input",
    )


def _inception(x, direct, reduce_a, filters_a, reduce_b, filters_b, pooled, name):
    branch1 = _conv(x, direct, 1, f"{name}_branch1")
    branch2 = _conv(x, reduce_a, 1, f"{name}_branch2_0")
    branch2 = _conv(branch2, filters_a, 3, f"{name}_branch2_1")
    branch3 = _conv(x, reduce_b, 1, f"{name}_branch3_0")
    branch3 = _conv(branch3, filters_b, 3, f"{name}_branch3_1")
    branch4 = keras.layers.MaxPooling2D(3, 1, padding="same", name=f"{name}_branch4_0")(x)
    branch4 = _conv(branch4, pooled, 1, f"{name}_branch4_1")
    return keras.layers.Concatenate(name=name)([branch1, branch2, branch3, branch4])


def _conv(x, filters, kernel_size, name, strides=1, padding="same"):
    x = keras.layers.Conv2D(
        filters,
        kernel_size,
        strides=strides,
        padding=padding,
        use_bias=False,
        kernel_initializer="he_normal",
        name=f"{name}_conv",
    )(x)
    # PyTorch's momentum of 0.1 is Keras' 0.9.
    x = layers.BatchNormalization(momentum=0.9, epsilon=1e-3, name=f"{name}_bn")(x)
    return keras.layers.ReLU(name=f"{name}_relu")(x)


def _pool(x, pool_size, name):
    """Halve the size; a last window that hangs over the end counts, and never one at the start.

    Keras' "same" begins half a window early where the size is odd, which for windows of 3 leaves
    no overhang at all: "valid" is right there.
    """
    exact = pool_size == 3 and x.shape[1] % 2 == 1
    padding = "valid" if exact else "same"
    return keras.layers.MaxPooling2D(pool_size, 2, padding=padding, name=name)(x)
