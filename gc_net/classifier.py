"""The classifier: supervises the detector, and names the class at inference."""

import os
from typing import TYPE_CHECKING, Any

import keras

from gc_net.backbones.network import Network

if TYPE_CHECKING:
    from gc_net.backbones.base import Backbone

_POOLS = (keras.layers.GlobalAveragePooling2D, keras.layers.GlobalMaxPooling2D)


@keras.saving.register_keras_serializable(package="gc_net")
class Classifier(Network):
    """Image to class logits.

    Args:
        backbone: Name of a backbone.
        num_classes: Number of classes. With 1000 and ImageNet weights, the pretrained outputs
            are kept.
        image_size: Side of the square images; the backbone's own if None.
        head: `"native"`, or another of `gc_net.heads`.
        weights: `"imagenet"`, a file path, or `None`.
        finer_map: Whether the map that the head pools has twice the side, which makes heat maps
            finer and a pass longer.

    Example:
        classifier = Classifier("efficientnet_lite0", num_classes=200, image_size=128)
        logits = classifier(images)  # [B, 200]
    """

    def __init__(
        self,
        backbone: "str | Backbone" = "efficientnet_lite0",
        num_classes: int = 1000,
        image_size: int | None = None,
        head: str = "native",
        weights: str | os.PathLike | None = "imagenet",
        name: str = "classifier",
        finer_map: bool = False,
        **kwargs: Any,
    ):
        super().__init__(
            backbone, num_classes, image_size, head, weights, name, finer_map=finer_map, **kwargs
        )
        self.num_classes = num_classes

    def get_config(self):
        return {**super().get_config(), "num_classes": self.num_classes}


def outputs_layer(classifier: Classifier) -> keras.layers.Dense:
    """Return the linear layer of a head that pools over all positions and has one linear layer.

    With such a head, each position contributes to each class, so there are class activation maps.
    Other heads raise a `ValueError` that lists their layers.
    """
    layers = [
        layer
        for layer in classifier.head.layers
        if not isinstance(layer, (keras.layers.InputLayer, keras.layers.Dropout))
    ]
    if [type(layer) for layer in layers] not in ([pool, keras.layers.Dense] for pool in _POOLS):
        found = ", ".join(layer.name for layer in layers)
        raise ValueError(
            "class activation maps need a head that pools over all positions and has one linear "
            f"layer. The {classifier.head_name!r} head of {classifier.backbone.name!r} has the "
            f"layers {found}. Grad-CAM works with every head."
        )
    return layers[1]
