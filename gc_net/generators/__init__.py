"""Generators: from coefficients to soft masks, differentiable in the coefficients."""

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


def for_detector(name: str, shape: str, image_size: int, **settings: Any) -> "keras.layers.Layer":
    """Build the generator that a detector is trained with.

    Args:
        name: Its name.
        shape: Name of the shape.
        image_size: Side of the masks.
        **settings: A run's settings of generators; each generator gets those that it `takes`.
    """
    takes = GENERATORS.get(name).takes
    return get(name, shape=shape, image_size=image_size, **{key: settings[key] for key in takes})
