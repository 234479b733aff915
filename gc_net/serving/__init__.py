"""Clients and servers of a trained model."""

import importlib

_LAZY = {"Client": "gc_net.serving.client", "ServerError": "gc_net.serving.transports"}

__all__ = ["Client", "ServerError"]


def __getattr__(name):
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'gc_net.serving' has no attribute {name!r}")
