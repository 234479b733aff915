"""Using a trained model: images in, shapes and boxes in their own pixels out."""

import importlib

_LAZY = {
    "Localizer": "gc_net.localizer",
    "Prediction": "gc_net.prediction.prediction",
    "load": "gc_net.localizer",
}

__all__ = ["Localizer", "Prediction", "load"]


def __getattr__(name):
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'gc_net.prediction' has no attribute {name!r}")
