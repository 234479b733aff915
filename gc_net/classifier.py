"""The classifier: supervises the detector, and names the class at inference."""

import os
from typing import TYPE_CHECKING, Any

import keras

from gc_net.backbones.network import Network

if TYPE_CHECKING:
    from gc_net.backbones.base import Backbone


@keras.saving.register_keras_serializable(package="gc_net")
class Classifier(Network):
    """Image to class logits.

    Args:
        backbone: Name of a backbone.
        num_classes: Number of classes. With 1000 and ImageNet weights, the pretrained outputs
            are kept.
        image_size: Side of the square images; the backbone's own where it is None.
        head: `"native"`, or another of `gc_net.heads`.
        weights: `"imagenet"`, a file path, or `None`.

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
        **kwargs: Any,
    ):
        super().__init__(backbone, num_classes, image_size, head, weights, name, **kwargs)
        self.num_classes = num_classes

    def get_config(self):
        return {**super().get_config(), "num_classes": self.num_classes}
