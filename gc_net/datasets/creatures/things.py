"""Things that lie and grow on the ground; they carry no information about the class.

So they do not have the colours of a class: they are pale, dark and earthen, with edges as hard as
those of a creature. In the colours of a class, they would be evidence for a classifier, and hiding
a creature would not hide its class. Things that merely stand out only mislead a saliency map.

Each kind adds several of itself to a sketch, at random. Coordinates are in units of the image's
longer side.
"""

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gc_net.datasets.creatures.canvas import CIRCLE, plane, tint

if TYPE_CHECKING:
    from gc_net.datasets.creatures.canvas import Sketch

_BLOOMS = np.array(
    [(246, 242, 230), (226, 220, 204), (62, 60, 66), (172, 172, 178), (108, 110, 118)], np.float64
)
_GREYS = np.array(
    [(150, 144, 136), (120, 116, 118), (176, 160, 140), (98, 100, 108), (196, 188, 176)]
)
_FOLIAGE = np.array([(92, 92, 80), (188, 178, 150), (70, 66, 64), (146, 142, 130)])
_LILIES = np.array([(86, 146, 78), (112, 164, 84), (70, 122, 84)])
_BARK = np.array([(112, 84, 60), (140, 112, 80), (88, 70, 58)])


def _flat(template, height):
    return template.real + 1j * height * template.imag


_TURN = np.linspace(0, 2 * np.pi, 30, endpoint=False)
_CORNERS = np.exp(1j * np.arange(6) * (np.pi / 3))
_STONE = CIRCLE * (1 + 0.1 * np.cos(2 * np.angle(CIRCLE) + 1) + 0.07 * np.sin(3 * np.angle(CIRCLE)))
_PEBBLE = _flat(_STONE, 0.72)
_STICK, _SPLIT = _flat(_STONE, 0.09), _flat(0.8 * _STONE, 0.04)
_BLADE = plane([(0, -0.045), (0.5, -0.04), (1, 0), (0.5, 0.04), (0, 0.045)])
_HALF_LEAF = plane([(-1, 0), (-0.6, 0.3), (0, 0.42), (0.6, 0.25), (1.05, 0)])
_LEAF = np.concatenate([_HALF_LEAF, _HALF_LEAF[-2:0:-1].conj()])
_FEATHER, _VANE = _flat(_LEAF, 0.62), _flat(0.7 * _LEAF, 0.4)
_RIB = plane([(-1.3, -0.04), (0.9, -0.015), (0.9, 0.015), (-1.3, 0.04)])
_PAD = np.append(np.exp(1j * np.linspace(0.25, 2 * np.pi - 0.25, 20)), 0.1)
_FLOWER = (0.68 + 0.32 * np.cos(5 * _TURN)) * np.exp(1j * _TURN)
_STARFISH = np.resize((1.0, 0.62, 0.4, 0.62), 20) * np.exp(1j * np.arange(20) * (np.pi / 10))
_ARC = np.exp(1j * np.linspace(-1.1, 1.1, 9))
_RIPPLE = _flat(np.concatenate([_ARC, 0.94 * _ARC[::-1]]) * 1j, 0.35)


class Part(NamedTuple):
    """A part of a thing: its points, and how it differs from the thing's own colour.

    Attributes:
        template: Points [P] around the middle of the thing, whose size is about 1.
        shade: How much lighter it is, or darker if negative.
        colour: A colour of its own, or None.
    """

    template: np.ndarray
    shade: float = 0.0
    colour: tuple[int, int, int] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Thing:
    """Copies of something at random places, in random sizes, turns and colours.

    Attributes:
        count: Number of copies.
        sizes: The least and the greatest.
        parts: Its parts, the lowest first.
        colours: [N, 3], of which each copy takes one; those of the ground's cover if None.
        spread: How far the colour of a copy may be from that.
        turns: The least and the greatest.
    """

    count: int
    sizes: tuple[float, float]
    parts: tuple[Part, ...]
    colours: np.ndarray | None = None
    spread: float = 16.0
    turns: tuple[float, float] = (-np.pi, np.pi)

    def __call__(
        self,
        sketch: "Sketch",
        rng: np.random.Generator,
        extent: complex,
        cover_colours: np.ndarray | None = None,
    ) -> None:
        uniform = rng.random((7, self.count))
        places = (uniform[0] * extent.real + 1j * extent.imag * uniform[1])[:, None]
        (small, large), (first, last) = self.sizes, self.turns
        sizes, turns = small + (large - small) * uniform[2], first + (last - first) * uniform[3]
        scales = (sizes * np.exp(1j * turns))[:, None]
        colours = cover_colours if self.colours is None else self.colours
        colours = colours[(uniform[4] * len(colours)).astype(int)]
        colours = colours + (2 * self.spread) * (uniform[4:].T - 0.5)
        for template, shade, colour in self.parts:
            own = colours if colour is None else colour
            sketch.polygons(scales * template + places, tint(own, shade) if shade else own)


# What covers the ground, in its colours.
grass = Thing(44, (0.08, 0.18), (Part(_BLADE),), turns=(-np.pi / 2 - 1.1, -np.pi / 2 + 1.1))
speckles = Thing(24, (0.004, 0.011), (Part(_CORNERS),))
ripples = Thing(18, (0.04, 0.2), (Part(_RIPPLE),), spread=5, turns=(-0.4, 0.4))
litter = Thing(22, (0.025, 0.06), (Part(_LEAF), Part(_RIB, -0.35)))
lichen = Thing(12, (0.015, 0.06), (Part(_FLOWER), Part(0.6 * _FLOWER, 0.25)), spread=8)

stones = Thing(5, (0.025, 0.09), (Part(_PEBBLE), Part(0.55 * _PEBBLE, 0.15)), _GREYS)
leaves = Thing(5, (0.05, 0.1), (Part(_LEAF), Part(_RIB, -0.35)), _FOLIAGE)
pads = Thing(5, (0.05, 0.11), (Part(_PAD), Part(0.72 * _PAD, 0.14)), _LILIES)
_EYE = Part(0.26 * _CORNERS, colour=(214, 190, 130))
flowers = Thing(6, (0.022, 0.045), (Part(_FLOWER), Part(0.6 * _FLOWER, 0.4), _EYE), _BLOOMS)
_SPOTS = (0.1 - 0.45j, -0.45 + 0.1j, 0.4 + 0.3j, -0.15 + 0.55j)
_WARTS = tuple(Part(0.17 * CIRCLE + place, colour=(250, 244, 230)) for place in _SPOTS)
mushrooms = Thing(3, (0.03, 0.06), (Part(CIRCLE), *_WARTS), _BLOOMS)
starfish = Thing(3, (0.04, 0.075), (Part(_STARFISH), Part(0.55 * _STARFISH, 0.3)), _BLOOMS)
# Elongated like a creature, so that being long does not give one away.
sticks = Thing(2, (0.14, 0.26), (Part(_STICK), Part(_SPLIT, 0.25)), _BARK)
# Elongated, too, and with a hard contrast.
feathers = Thing(2, (0.07, 0.13), (Part(_FEATHER), Part(_VANE, 0.35), Part(_RIB, -0.4)), _BLOOMS)
