"""Geometric shapes: coefficients to level sets, areas, boxes and outlines."""

from gc_net.registry import Registry

SHAPES = Registry(
    "shape",
    {
        "rectangle": "gc_net.shapes.rectangle:Rectangle",
        "rotated_rectangle": "gc_net.shapes.rotated_rectangle:RotatedRectangle",
        "rotated_ellipse": "gc_net.shapes.rotated_ellipse:RotatedEllipse",
    },
)


def get(name):
    """Return the shape called `name`, e.g. `"rotated_ellipse"`; a shape passes through."""
    if isinstance(name, str):
        return SHAPES.get(name)()
    if not hasattr(name, "coefficient_names"):
        raise ValueError(f"`shape` must be the name of a shape, or a `Shape`. Received: {name!r}")
    return name
