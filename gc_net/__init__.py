"""GC-Net: weakly supervised object localization from class labels alone."""

import importlib

from gc_net.version import __version__

# Imported on first use, so that `--help` and the registries cost no TensorFlow import.
_LAZY = {
    "Classifier": "gc_net.classifier",
    "Detector": "gc_net.detector",
    "GCNet": "gc_net.model",
    "load": "gc_net.prediction",
}

__all__ = ["Classifier", "Detector", "GCNet", "__version__", "load"]


def __getattr__(name):
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    try:
        return importlib.import_module(f"gc_net.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"gc_net.{name}":
            raise
        raise AttributeError(f"module 'gc_net' has no attribute {name!r}") from None
