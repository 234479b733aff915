"""GC-Net: weakly supervised object localization from class labels alone."""

import importlib
from typing import TYPE_CHECKING

from gc_net.serializable import register_with_keras
from gc_net.version import __version__

if TYPE_CHECKING:
    from gc_net.classifier import Classifier
    from gc_net.data.pipeline import training_batches
    from gc_net.detector import Detector
    from gc_net.generators.learned import LearnedGenerator
    from gc_net.generators.model import ModelGenerator
    from gc_net.localizer import Localizer
    from gc_net.model import GCNet
    from gc_net.prediction import load

# Imported on first use, so that `--help` and the registries cost no TensorFlow import.
_LAZY = {
    "Classifier": "gc_net.classifier",
    "Detector": "gc_net.detector",
    "GCNet": "gc_net.model",
    "LearnedGenerator": "gc_net.generators.learned",
    "Localizer": "gc_net.localizer",
    "ModelGenerator": "gc_net.generators.model",
    "load": "gc_net.prediction",
    "training_batches": "gc_net.data.pipeline",
}

__all__ = [
    "Classifier",
    "Detector",
    "GCNet",
    "LearnedGenerator",
    "Localizer",
    "ModelGenerator",
    "__version__",
    "load",
    "training_batches",
]

register_with_keras()


def __getattr__(name):
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    try:
        return importlib.import_module(f"gc_net.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"gc_net.{name}":
            raise
        raise AttributeError(f"module 'gc_net' has no attribute {name!r}") from None


def __dir__():
    return sorted({*globals(), *_LAZY})
