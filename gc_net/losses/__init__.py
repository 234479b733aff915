"""Losses: the terms that train a detector, by name, and those of the other stages."""

from gc_net.registry import Registry

LOSS_TERMS = Registry(
    "loss term",
    {
        "area": "gc_net.losses.terms:AreaLoss",
        "object": "gc_net.losses.terms:ObjectLoss",
        "background": "gc_net.losses.terms:BackgroundLoss",
    },
)
