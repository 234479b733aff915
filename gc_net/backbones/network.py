"""A backbone with a head on it, as one model from 0–255 RGB images to raw outputs."""

import contextlib

import keras
from keras import layers

from gc_net import backbones
from gc_net.backbones.layers import outputs
from gc_net.registry import Registry


class Network(keras.Model):
    """What detector and classifier have in common: normalizer → trunk → head.

    Args:
        backbone: Name of a backbone, or a `Backbone`.
        num_outputs: Number of raw outputs.
        image_size: Side of the square images; the backbone's own where it is None.
        head: `"native"`, the backbone's own, or another of `HEADS`.
        weights: `"imagenet"`, a file path, or `None`, see `Backbone.load_weights`.
        precision: Name of the layers' dtype policy; Keras' current one where it is None.

    Attributes:
        initial_variables: Names of the native head's variables that `weights` had nothing for, so
            that they were left at their initial values.
    """

    def __init__(
        self, backbone, num_outputs, image_size, head, weights, name, precision=None, **kwargs
    ):
        super().__init__(name=name, **kwargs)
        self.backbone = backbones.get(backbone)
        self.image_size = int(image_size or self.backbone.image_size)
        self.head_name = head
        self.precision = precision or keras.mixed_precision.dtype_policy().name
        with _policy(self.precision):
            self.normalizer = self.backbone.normalizer()
            self.trunk = self.backbone.trunk(self.image_size)
            self.head = HEADS.get(head)(self.backbone, num_outputs, self.trunk.output_shape[1:])
        # Only the backbone's own head can have been trained on ImageNet.
        native = self.head if head == "native" else None
        self.initial_variables = tuple(self.backbone.load_weights(self.trunk, native, weights))
        self.built = True

    def normalize(self, images):
        """Return images as the trunk takes them; a zero pixel is the mean colour."""
        return self.normalizer(images)

    def from_normalized(self, normalized, training=False):
        """Return the raw outputs [B, N] for normalized images."""
        return self.head(self.trunk(normalized, training=training), training=training)

    def call(self, images, training=False):
        return self.from_normalized(self.normalize(images), training=training)

    def freeze_before(self, layer):
        """Leave the trunk's layers before `layer` as they are in training.

        Early layers see edges and colours, which differ little between datasets, but cost most of
        the time, having the largest maps. Frozen layers also normalize with stored statistics.

        Args:
            layer: Name of a layer of the trunk, or what it begins with, e.g. a block's.
        """
        names = [each.name for each in self.trunk.layers]
        first = next((at for at, name in enumerate(names) if name.startswith(layer)), None)
        if first is None:
            raise ValueError(
                f"{self.backbone.name} has no layer whose name begins with {layer!r}. Its layers: "
                f"{', '.join(names)}."
            )
        for frozen in self.trunk.layers[:first]:
            frozen.trainable = False

    def get_config(self):
        return {
            "backbone": self.backbone.name,
            "image_size": self.image_size,
            "head": self.head_name,
            # A saved model brings its own weights.
            "weights": None,
            "precision": self.precision,
            "name": self.name,
        }


@contextlib.contextmanager
def _policy(name):
    """Make layers with another dtype policy than Keras' current one."""
    current = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.mixed_precision.set_dtype_policy(current)


def native_head(backbone, num_outputs, feature_shape):
    """Return the head that the backbone's authors gave it."""
    return backbone.head(num_outputs, feature_shape)


def position_head(backbone, num_outputs, feature_shape):
    """Return a head that keeps positions: 64 channels, flattened.

    An average over all positions, as most native heads take, hardly knows where an object is.
    """
    inputs = keras.Input(tuple(feature_shape), name="features")
    x = layers.Conv2D(64, 1, kernel_initializer="he_normal", name="squeeze")(inputs)
    x = layers.BatchNormalization(name="squeeze_bn")(x)
    x = layers.ReLU(name="squeeze_relu")(x)
    x = layers.Flatten(name="flatten")(x)
    return keras.Model(inputs, outputs(num_outputs)(x), name="head")


def max_head(backbone, num_outputs, feature_shape):
    """Return a head of each channel's maximum over all positions and one linear layer."""
    inputs = keras.Input(tuple(feature_shape), name="features")
    x = layers.GlobalMaxPooling2D(name="pool")(inputs)
    return keras.Model(inputs, outputs(num_outputs)(x), name="head")


HEADS = Registry(
    "head",
    {
        "native": native_head,
        "position": position_head,
        "max": max_head,
        "acol": "gc_net.methods.acol:TwoBranches",
        "danet": "gc_net.methods.danet:DivergentMaps",
    },
)
