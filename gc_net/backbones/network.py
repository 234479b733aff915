"""A backbone with a head on it, as one model from 0–255 RGB images to raw outputs."""

import contextlib
import os
from typing import TYPE_CHECKING, Any

import keras

from gc_net import backbones, heads
from gc_net.backbones.finer import finer
from gc_net.backbones.folding import call_folded
from gc_net.heads.base import feature_shapes

if TYPE_CHECKING:
    from gc_net.backbones.base import Backbone


class Network(keras.Model):
    """What detector and classifier have in common: normalizer → trunk → head.

    Args:
        backbone: Name of a backbone, or a `Backbone`.
        num_outputs: Number of raw outputs.
        image_size: Side of the square images; the backbone's own where it is None.
        head: `"native"`, the backbone's own, or another of `gc_net.heads`.
        weights: `"imagenet"`, a file path, or `None`, see `Backbone.load_weights`.
        precision: Name of the layers' dtype policy; Keras' current one where it is None.
        finer_map: Whether the trunk's map has twice the side, see `gc_net.backbones.finer`.

    Attributes:
        initial_variables: Names of the native head's variables that `weights` had nothing for, so
            that they were left at their initial values.
    """

    def __init__(
        self,
        backbone: "str | Backbone",
        num_outputs: int,
        image_size: int | None,
        head: str,
        weights: str | os.PathLike | None,
        name: str,
        precision: str | None = None,
        finer_map: bool = False,
        **kwargs: Any,
    ):
        super().__init__(name=name, **kwargs)
        self.backbone = backbones.get(backbone)
        self.image_size = int(image_size or self.backbone.image_size)
        self.head_name = head
        self.precision = precision or keras.mixed_precision.dtype_policy().name
        self.finer_map = bool(finer_map)
        with _policy(self.precision):
            self.normalizer = self.backbone.normalizer()
            whole = self.backbone.trunk(self.image_size)
            if self.finer_map:
                whole = finer(whole)
            self._layer_names = tuple(layer.name for layer in whole.layers)
            self.trunk = heads.get(head).on(self.backbone, whole)
            self.head = heads.get(head).build(
                self.backbone, num_outputs, feature_shapes(self.trunk)
            )
        # Only the backbone's own head can have been trained on ImageNet.
        native = self.head if head == "native" else None
        self.initial_variables = tuple(self.backbone.load_weights(whole, native, weights))
        self.built = True

    def normalize(self, images: Any) -> Any:
        """Return images as the trunk takes them; a zero pixel is the mean colour."""
        return self.normalizer(images)

    def features(self, images: Any, training: bool = False) -> Any:
        """Return what the head looks at: the trunk's map, or a list of maps."""
        run = call_folded if training else _call
        return run(self.trunk, self.normalize(images), training)

    def from_normalized(self, normalized: Any, training: bool = False, folded: bool = False) -> Any:
        """Return the raw outputs [B, N] for normalized images.

        Args:
            normalized: [B, S, S, 3], see `normalize`.
            training: Whether layers that are trainable run as in training.
            folded: Whether batch normalizations that take stored statistics are folded, see
                `call_folded`; in training they always are.
        """
        run = call_folded if training or folded else _call
        return run(self.head, run(self.trunk, normalized, training), training)

    def call(self, images, training=False):
        return self.from_normalized(self.normalize(images), training=training)

    def freeze_before(self, layer: str) -> None:
        """Leave the trunk's layers before `layer` as they are in training.

        Early layers see edges and colours, which differ little between datasets, but cost most of
        the time, having the largest maps. Frozen layers also normalize with stored statistics.

        Args:
            layer: Name of a layer of the trunk, or what it begins with, e.g. a block's; `"head"`
                to leave all of the trunk.
        """
        if layer == "head":
            self.trunk.trainable = False
            return
        # Of all layers, also those that its head does not look at.
        names = self._layer_names
        first = next((at for at, name in enumerate(names) if name.startswith(layer)), None)
        if first is None:
            raise ValueError(
                f"{self.backbone.name} has no layer whose name begins with {layer!r}. Its layers: "
                f"{', '.join(names)}."
            )
        for each in self.trunk.layers:
            if names.index(each.name) < first:
                each.trainable = False

    def get_config(self):
        return {
            "backbone": self.backbone.name,
            "image_size": self.image_size,
            "head": self.head_name,
            # A saved model brings its own weights.
            "weights": None,
            "precision": self.precision,
            "finer_map": self.finer_map,
            "name": self.name,
        }


def _call(model, inputs, training):
    return model(inputs, training=training)


@contextlib.contextmanager
def _policy(name):
    """Make layers with another dtype policy than Keras' current one."""
    current = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.mixed_precision.set_dtype_policy(current)
