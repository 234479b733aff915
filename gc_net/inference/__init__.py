"""Using a trained model: images in, shapes and boxes in their own pixels out."""

import importlib

_LAZY = {
    "Localizer": "gc_net.inference.localizer",
    "Prediction": "gc_net.inference.prediction",
    "load": "gc_net.inference.localizer",
}

__all__ = ["Localizer", "Prediction", "load"]


def __getattr__(name):
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'gc_net.inference' has no attribute {name!r}")
