"""VGG16 (Simonyan and Zisserman, 2015), the paper's first choice on CUB."""

import keras
import numpy as np

from gc_net.backbones import keras_files, layers
from gc_net.backbones.base import Backbone
from gc_net.backbones.torch_names import translate

BLOCKS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # channels and convolutions of each
HIDDEN_UNITS = 4096  # of each fully connected layer
POOLED_SIZE = 7  # side of the feature map that the fully connected layers take
CAFFE_MEAN = (123.68, 116.779, 103.939)  # RGB; subtracted from the BGR images of Keras' weights


class VGG16(Backbone):
    """VGG16; the trunk ends with the fifth pool (512 channels, stride 32).

    The head flattens a 7×7 map, so it knows where things are. At image sizes other than 224 the
    map is averaged, or repeated, to 7×7 as torchvision's model does, and the ImageNet weights of
    the fully connected layers serve at every size.

    Images are normalized by ImageNet's mean and deviation, which is what torchvision's weights
    were trained on. Files of keras.applications were trained on BGR values around a mean of their
    own; they are rewritten while being read, by changing the first convolution. The result is the
    same but for the outermost pixels, whose padding takes a colour half a grey level apart.
    """

    name = "vgg16"
    image_size = 224
    descriptor_layer = "block5_conv3"
    feature_layers = ("block4_conv3", "block5_conv3", "block5_pool")

    def normalizer(self):
        return layers.imagenet_normalizer()

    def trunk(self, image_size, name="trunk"):
        inputs = keras.Input((image_size, image_size, 3), name="images")
        x = inputs
        for block, (channels, repeats) in enumerate(BLOCKS, 1):
            for repeat in range(1, repeats + 1):
                x = keras.layers.Conv2D(
                    channels,
                    3,
                    padding="same",
                    activation="relu",
                    kernel_initializer="he_normal",
                    name=f"block{block}_conv{repeat}",
                )(x)
            x = keras.layers.MaxPooling2D(2, name=f"block{block}_pool")(x)
        return keras.Model(inputs, x, name=name)

    def head(self, num_outputs, feature_shape, name="head"):
        inputs = keras.Input(tuple(feature_shape), name="features")
        x = inputs
        if tuple(feature_shape[:2]) != (POOLED_SIZE, POOLED_SIZE):
            x = keras.layers.AdaptiveAveragePooling2D(POOLED_SIZE, name="pool")(x)
        x = keras.layers.Flatten(name="flatten")(x)  # [B, 7 · 7 · 512]
        for fully_connected in ("fc1", "fc2"):
            x = keras.layers.Dense(
                HIDDEN_UNITS,
                activation="relu",
                kernel_initializer=keras.initializers.RandomNormal(stddev=0.01),
                name=fully_connected,
            )(x)
            x = keras.layers.Dropout(0.5, name=f"{fully_connected}_dropout")(x)
        return keras.Model(inputs, layers.outputs(num_outputs)(x), name=name)

    def imagenet_weights(self, with_head):
        return keras_files.download(self.name, with_head)

    def keras_weights(self, path):
        reference = keras_files.load(keras.applications.VGG16, path)
        names = {f"trunk/{name}": name for name, _ in _convolutions()}
        if "predictions" in {layer.name for layer in reference.layers}:
            names |= {"head/fc1": "fc1", "head/fc2": "fc2", "head/outputs": "predictions"}
        arrays = {}
        for ours, theirs in names.items():
            kernel, bias = reference.get_layer(theirs).get_weights()
            arrays |= {f"{ours}/kernel": kernel, f"{ours}/bias": bias}
        first = "trunk/block1_conv1"
        arrays[f"{first}/kernel"], arrays[f"{first}/bias"] = _from_caffe(
            arrays[f"{first}/kernel"], arrays[f"{first}/bias"]
        )
        return arrays

    def torch_weights(self, state):
        """Translate the names of torchvision's VGG16."""
        names = {f"features.{position}": f"trunk/{name}" for name, position in _convolutions()}
        if "classifier.0.weight" in state:
            names |= {
                "classifier.0": "head/fc1",
                "classifier.3": "head/fc2",
                "classifier.6": "head/outputs",
            }
        arrays = translate(state, names)
        if "head/fc1/kernel" in arrays:
            arrays["head/fc1/kernel"] = _channels_last(arrays["head/fc1/kernel"])
        return arrays


def _convolutions():
    """Yield each convolution's name, and its place in torchvision's list of all layers."""
    position = 0
    for block, (_, repeats) in enumerate(BLOCKS, 1):
        for repeat in range(1, repeats + 1):
            yield f"block{block}_conv{repeat}", position
            position += 2  # its activation follows
        position += 1  # the pool


def _from_caffe(kernel, bias):
    """Have the first convolution take RGB normalized by mean and deviation.

    With n = (x − mean) / std, the other convention's x − caffe_mean is
    std · n + (mean − caffe_mean): the factor goes into the kernel, the constant, summed over the
    window, into the bias.
    """
    kernel = kernel[:, :, ::-1].astype(np.float64)  # [3, 3, BGR, C] → [3, 3, RGB, C]
    mean, std = np.array(layers.IMAGENET_MEAN), np.array(layers.IMAGENET_STD)
    shift = np.einsum("hwic,i->c", kernel, mean - np.array(CAFFE_MEAN))
    kernel = kernel * std[:, None]
    return kernel.astype(np.float32), (bias + shift).astype(np.float32)


def _channels_last(kernel):
    """Reorder the rows of a layer on flattened maps from channels, y, x to y, x, channels."""
    size, units = POOLED_SIZE, kernel.shape[-1]
    kernel = kernel.reshape(-1, size, size, units)  # [C, 7, 7, units]
    return kernel.transpose(1, 2, 0, 3).reshape(-1, units)
