"""Generators: coefficients to soft masks, differentiable in the coefficients."""

from typing import TYPE_CHECKING, Any

from gc_net.registry import Registry

if TYPE_CHECKING:
    import keras

GENERATORS = Registry(
    "generator",
    {
        "model": "gc_net.generators.model:ModelGenerator",
        "learned": "gc_net.generators.learned:LearnedGenerator",
    },
)


def get(name: "str | keras.layers.Layer", **kwargs: Any) -> "keras.layers.Layer":
    """Build the generator called `name`; a generator passes through."""
    return GENERATORS.get(name)(**kwargs) if isinstance(name, str) else name
