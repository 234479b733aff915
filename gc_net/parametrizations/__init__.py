"""Parametrizations: how a detector's raw outputs become the coefficients of a shape.

| | `sigmoid` | `seamless` |
|---|---|---|
| centre | sigmoids | sigmoids |
| extents | sigmoids | sigmoids of a size plus and minus half an elongation |
| angle | a sigmoid over (−90°, 90°) | half the direction of the elongation, a vector |

`sigmoid` is the paper's. Its angle has a seam: an axis that turns past the vertical jumps from one
end of the range to the other. Between the two ends lies the horizontal, so an undecided network
answers the horizontal. `seamless` has no seam: the elongation is a vector (e₁, e₂) = e·(cos 2θ,
sin 2θ). Each ellipse is one point of that plane, and the circle is its origin.

Both keep the centre in the image and each extent below the image's side. Raw zeros give a centred
shape of half the image's width and height at an angle of zero. For shapes that do not rotate, both
are the same.

`edges` reads the outputs of the head of edges: see `gc_net.parametrizations.edges`. `rated_edges`
reads one more, how well the box fits.
"""

from typing import TYPE_CHECKING

from gc_net.registry import Registry

if TYPE_CHECKING:
    from gc_net.parametrizations.base import Parametrization

PARAMETRIZATIONS = Registry(
    "parametrization",
    {
        "seamless": "gc_net.parametrizations.seamless:Seamless",
        "edges": "gc_net.parametrizations.edges:Edges",
        "rated_edges": "gc_net.parametrizations.rated_edges:RatedEdges",
        "sigmoid": "gc_net.parametrizations.sigmoid:Sigmoid",
    },
)


def of_head(head: str) -> str | None:
    """Return the one parametrization that reads the outputs of a head; None if any can."""
    from gc_net import heads

    return heads.get(head).parametrization


def get(name: "str | Parametrization") -> "Parametrization":
    """Return the parametrization called `name`; a parametrization passes through."""
    return PARAMETRIZATIONS.get(name)() if isinstance(name, str) else name
