"""Inception-V3 (Szegedy et al., 2016), the paper's choice on ILSVRC."""

import itertools
import re

import keras

from gc_net.backbones import keras_files, layers
from gc_net.backbones.base import Backbone

# What Keras numbers as it goes, and the name it gets here: `conv2d_17` → `conv18`.
NUMBERED = {
    "Conv2D": "conv",
    "BatchNormalization": "bn",
    "Activation": "relu",
    "MaxPooling2D": "maxpool",
    "AveragePooling2D": "avgpool",
    "Concatenate": "concatenate",
}


class InceptionV3(Backbone):
    """Inception-V3 of keras.applications; the trunk ends with the 2048 channels of `mixed10`.

    Images are scaled to −1 to 1, so the colour of masked pixels is a middle grey.
    """

    name = "inception_v3"
    image_size = 299
    descriptor_layer = "mixed10"
    feature_layers = ("mixed2", "mixed7", "mixed10")

    def normalizer(self):
        return layers.normalizer(mean=127.5, std=127.5)

    def trunk(self, image_size, name="trunk"):
        source = keras.applications.InceptionV3(
            include_top=False, weights=None, input_shape=(image_size, image_size, 3)
        )
        names = _stable_names(source)

        def renamed(layer):
            kind = layer.__class__
            if kind is keras.layers.BatchNormalization:
                kind = layers.BatchNormalization
            return kind.from_config({**layer.get_config(), "name": names[layer.name]})

        inputs = keras.Input(source.input_shape[1:], name="images")
        clone = keras.models.clone_model(source, input_tensors=inputs, clone_function=renamed)
        return keras.Model(clone.inputs[0], clone.outputs[0], name=name)

    def head(self, num_outputs, feature_shape, name="head"):
        return layers.pooled_head(num_outputs, feature_shape, dropout=0.5, name=name)

    def imagenet_weights(self, with_head):
        return keras_files.download(self.name, with_head)

    def keras_weights(self, path):
        reference = keras_files.load(keras.applications.InceptionV3, path)
        arrays = {}
        for theirs, ours in _stable_names(reference).items():
            layer = reference.get_layer(theirs)
            part = "head" if ours == "outputs" else "trunk"
            for variable in layer.weights:
                arrays[f"{part}/{ours}/{variable.name}"] = variable.numpy()
        return arrays


def _stable_names(model):
    """Map the layer names of keras.applications to ones that do not depend on earlier models."""
    counters = {kind: itertools.count(1) for kind in NUMBERED}
    names = {}
    for layer in sorted(model.layers, key=lambda layer: _number(layer.name)):
        kind = layer.__class__.__name__
        if layer.name == "predictions":
            names[layer.name] = "outputs"
        elif kind in NUMBERED and not layer.name.startswith("mixed"):
            names[layer.name] = f"{NUMBERED[kind]}{next(counters[kind])}"
        else:
            names[layer.name] = layer.name
    return names


def _number(name):
    """Return Keras' count of layers of a kind, in the order they were made: `conv2d_17` → 17."""
    match = re.search(r"_(\d+)$", name)
    return int(match[1]) if match else 0
