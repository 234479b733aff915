"""Lets Keras find the classes of this package by name before their modules are imported.

`keras.saving.load_model` looks a class up in `keras.saving.get_custom_objects()`.
`@register_keras_serializable` puts it there when its module is imported. Until then, a stand-in is
there. So `import gc_net` is enough to load models, and it does not import TensorFlow.
"""

import contextlib
import sys

from gc_net.imports import around_import
from gc_net.registry import Registry

PACKAGE = "gc_net"
SERIALIZABLE = Registry(
    "class in a model file",
    {
        "Adam": "gc_net.optimizers:Adam",
        "AdamW": "gc_net.optimizers:AdamW",
        "BatchNormalization": "gc_net.backbones.layers:BatchNormalization",
        "ClassLoss": "gc_net.losses.classes:ClassLoss",
        "Classifier": "gc_net.classifier:Classifier",
        "Detector": "gc_net.detector:Detector",
        "DiceLoss": "gc_net.losses.masks:DiceLoss",
        "EdgeLoss": "gc_net.losses.edges:EdgeLoss",
        "GCNet": "gc_net.model:GCNet",
        "ImplicitNetwork": "gc_net.generators.networks:ImplicitNetwork",
        "KernelMuon": "gc_net.generators.crop_fitting:KernelMuon",
        "LearnedGenerator": "gc_net.generators.learned:LearnedGenerator",
        "MaskLoss": "gc_net.losses.masks:MaskLoss",
        "ModelGenerator": "gc_net.generators.model:ModelGenerator",
        "OverlapLoss": "gc_net.losses.masks:OverlapLoss",
        "PaperNetwork": "gc_net.generators.networks:PaperNetwork",
        "SGD": "gc_net.optimizers:SGD",
    },
)


class _StandIn:
    """Has the one method of a class that Keras calls to load it."""

    def __init__(self, name):
        self.name = name

    def from_config(self, config):
        return SERIALIZABLE.get(self.name).from_config(config)


def register() -> None:
    """Put stand-ins into the registry of Keras, for classes that are not there yet."""
    import keras

    known = keras.saving.get_custom_objects()
    for name in SERIALIZABLE:
        known.setdefault(f"{PACKAGE}>{name}", _StandIn(name))


@contextlib.contextmanager
def _registering():
    yield
    register()


def register_with_keras() -> None:
    """Call `register` now if Keras is imported, and otherwise when it is imported."""
    if "keras" in sys.modules:
        register()
    else:
        around_import("keras", _registering)
