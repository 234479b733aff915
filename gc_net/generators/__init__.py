"""Generators: coefficients to soft masks, differentiable in the coefficients."""

from gc_net.registry import Registry

GENERATORS = Registry(
    "generator",
    {
        "model": "gc_net.generators.model:ModelGenerator",
        "learned": "gc_net.generators.learned:LearnedGenerator",
    },
)


def get(name, **kwargs):
    """Build the generator called `name`; a generator passes through."""
    return GENERATORS.get(name)(**kwargs) if isinstance(name, str) else name
