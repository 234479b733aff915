"""Geometric shapes: from coefficients to level sets, areas, boxes and outlines."""

from typing import TYPE_CHECKING

from gc_net.registry import Registry

if TYPE_CHECKING:
    from gc_net.shapes.base import Shape

SHAPES = Registry(
    "shape",
    {
        "rectangle": "gc_net.shapes.rectangle:Rectangle",
        "rotated_rectangle": "gc_net.shapes.rotated_rectangle:RotatedRectangle",
        "rotated_ellipse": "gc_net.shapes.rotated_ellipse:RotatedEllipse",
    },
)


def get(name: "str | Shape") -> "Shape":
    """Return the shape called `name`, e.g. `"rotated_ellipse"`; a shape passes through."""
    if isinstance(name, str):
        return SHAPES.get(name)()
    if not hasattr(name, "coefficient_names"):
        raise ValueError(f"`shape` must be the name of a shape, or a `Shape`. Received: {name!r}")
    return name
