"""Heads: from a trunk's feature maps to a network's raw outputs.

| name | what it looks at |
|---|---|
| `native` | the end of the trunk, as in the backbone of its authors |
| `position` | the end of the trunk, position by position |
| `max` | the highest value of each channel at the end of the trunk |
| `edges` | maps of several sizes, in whose rows and columns it finds the edges of an object |
| `rated_edges` | the same; it rates its own box too, see `gc_net.training.rating` |

Other heads belong to methods and are described there. An entry is a subclass of `Head`. For a head
on the end of the trunk, it may be a function of backbone, number of outputs and feature shape to a
model called `"head"`.
"""

from typing import TYPE_CHECKING

from gc_net.registry import Registry

if TYPE_CHECKING:
    from gc_net.heads.base import Head

HEADS = Registry(
    "head",
    {
        "native": "gc_net.heads.simple:native",
        "position": "gc_net.heads.simple:position",
        "max": "gc_net.heads.simple:maximum",
        "edges": "gc_net.heads.edges:Edges",
        "rated_edges": "gc_net.heads.rated_edges:RatedEdges",
        "acol": "gc_net.methods.acol:TwoBranches",
        "danet": "gc_net.methods.danet:DivergentMaps",
    },
)
# Heads of methods, which a detector cannot have.
CLASSIFIER_HEADS = ("max", "acol", "danet")
# What heads become when they are rated. No training starts from these.
RATED_HEADS = {"edges": "rated_edges"}


def __getattr__(name: str) -> tuple[str, ...]:
    # Made on each access, so that it has heads which were registered since then.
    if name == "DETECTOR_HEADS":
        left_out = {*CLASSIFIER_HEADS, *RATED_HEADS.values()}
        return tuple(head for head in HEADS if head not in left_out)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def get(name: "str | Head") -> "Head":
    """Return the `Head` called `name`; a head passes through."""
    from gc_net.heads.base import Head, OnTrunk

    found = HEADS.get(name) if isinstance(name, str) else name
    if isinstance(found, Head):
        return found
    is_head = isinstance(found, type) and issubclass(found, Head)
    return found() if is_head else OnTrunk(found)
