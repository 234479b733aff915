"""Backbones: the convolutional networks that detector and classifier are built on."""

from typing import TYPE_CHECKING

from gc_net.registry import Registry

if TYPE_CHECKING:
    from gc_net.backbones.base import Backbone

BACKBONES = Registry(
    "backbone",
    {
        "vgg16": "gc_net.backbones.vgg16:VGG16",
        "googlenet": "gc_net.backbones.googlenet:GoogLeNet",
        "inception_v3": "gc_net.backbones.inception_v3:InceptionV3",
        "efficientnet_lite0": "gc_net.backbones.efficientnet_lite:EfficientNetLite0",
        "efficientnet_lite1": "gc_net.backbones.efficientnet_lite:EfficientNetLite1",
        "efficientnet_lite2": "gc_net.backbones.efficientnet_lite:EfficientNetLite2",
        "small": "gc_net.backbones.small:Small",
        "tiny": "gc_net.backbones.tiny:Tiny",
    },
)


def get(name: "str | Backbone") -> "Backbone":
    """Return the backbone called `name`, e.g. `"efficientnet_lite0"`; a backbone passes through."""
    return BACKBONES.get(name)() if isinstance(name, str) else name
