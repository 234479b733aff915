"""Things that lie and grow on the ground; they carry no information about the class.

So they do not have the colours of a class: they are pale, dark and earthen, with edges as hard as
    those of a creature. In the colours of a class, they would be evidence for a classifier, and
    hiding a creature would not hide its class. Things that merely stand out only mislead a saliency
    map.

Each function adds several of its kind to a sketch, at random. Coordinates are in units of the
image's longer side.
"""

from typing import TYPE_CHECKING

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


class _Scatter:
    """Random places, sizes, turns and colours for `count` copies of something."""

    def __init__(self, rng, extent, count, low, high, colours, spread=16.0, turns=(-np.pi, np.pi)):
        uniform = rng.random((7, count))
        self.places = (uniform[0] * extent.real + 1j * extent.imag * uniform[1])[:, None]
        sizes = low + (high - low) * uniform[2]
        turns = turns[0] + (turns[1] - turns[0]) * uniform[3]
        self.scales = (sizes * np.exp(1j * turns))[:, None]
        colours = colours[(uniform[4] * len(colours)).astype(int)]
        self.colours = colours + (2 * spread) * (uniform[4:].T - 0.5)

    def add(self, sketch, template, shade=0.0, colour=None):
        points = self.scales * template + self.places
        colours = self.colours if colour is None else colour
        sketch.polygons(points, tint(colours, shade) if shade else colours)


def grass(sketch: "Sketch", rng: np.random.Generator, extent: complex, colours: np.ndarray) -> None:
    upwards = (-np.pi / 2 - 1.1, -np.pi / 2 + 1.1)
    _Scatter(rng, extent, 44, 0.08, 0.18, colours, turns=upwards).add(sketch, _BLADE)


def speckles(
    sketch: "Sketch", rng: np.random.Generator, extent: complex, colours: np.ndarray
) -> None:
    _Scatter(rng, extent, 24, 0.004, 0.011, colours).add(sketch, _CORNERS)


def ripples(
    sketch: "Sketch", rng: np.random.Generator, extent: complex, colours: np.ndarray
) -> None:
    ripples = _Scatter(rng, extent, 18, 0.04, 0.2, colours, spread=5, turns=(-0.4, 0.4))
    ripples.add(sketch, _RIPPLE)


def litter(
    sketch: "Sketch", rng: np.random.Generator, extent: complex, colours: np.ndarray
) -> None:
    leaves = _Scatter(rng, extent, 22, 0.025, 0.06, colours)
    leaves.add(sketch, _LEAF)
    leaves.add(sketch, _RIB, shade=-0.35)


def lichen(
    sketch: "Sketch", rng: np.random.Generator, extent: complex, colours: np.ndarray
) -> None:
    patches = _Scatter(rng, extent, 12, 0.015, 0.06, colours, spread=8)
    patches.add(sketch, _FLOWER)
    patches.add(sketch, 0.6 * _FLOWER, shade=0.25)


def stones(sketch: "Sketch", rng: np.random.Generator, extent: complex) -> None:
    stones = _Scatter(rng, extent, 5, 0.025, 0.09, _GREYS)
    stones.add(sketch, _PEBBLE)
    stones.add(sketch, 0.55 * _PEBBLE, shade=0.15)


def leaves(sketch: "Sketch", rng: np.random.Generator, extent: complex) -> None:
    leaves = _Scatter(rng, extent, 5, 0.05, 0.1, _FOLIAGE)
    leaves.add(sketch, _LEAF)
    leaves.add(sketch, _RIB, shade=-0.35)


def pads(sketch: "Sketch", rng: np.random.Generator, extent: complex) -> None:
    pads = _Scatter(rng, extent, 5, 0.05, 0.11, _LILIES)
    pads.add(sketch, _PAD)
    pads.add(sketch, 0.72 * _PAD, shade=0.14)


def flowers(sketch: "Sketch", rng: np.random.Generator, extent: complex) -> None:
    flowers = _Scatter(rng, extent, 6, 0.022, 0.045, _BLOOMS)
    flowers.add(sketch, _FLOWER)
    flowers.add(sketch, 0.6 * _FLOWER, shade=0.4)
    flowers.add(sketch, 0.26 * _CORNERS, colour=(214, 190, 130))


def mushrooms(sketch: "Sketch", rng: np.random.Generator, extent: complex) -> None:
    caps = _Scatter(rng, extent, 3, 0.03, 0.06, _BLOOMS)
    caps.add(sketch, CIRCLE)
    for place in (0.1 - 0.45j, -0.45 + 0.1j, 0.4 + 0.3j, -0.15 + 0.55j):
        caps.add(sketch, 0.17 * CIRCLE + place, colour=(250, 244, 230))


def starfish(sketch: "Sketch", rng: np.random.Generator, extent: complex) -> None:
    stars = _Scatter(rng, extent, 3, 0.04, 0.075, _BLOOMS)
    stars.add(sketch, _STARFISH)
    stars.add(sketch, 0.55 * _STARFISH, shade=0.3)


def sticks(sketch: "Sketch", rng: np.random.Generator, extent: complex) -> None:
    """Elongated like a creature, so that being long does not give one away."""
    sticks = _Scatter(rng, extent, 2, 0.14, 0.26, _BARK)
    sticks.add(sketch, _STICK)
    sticks.add(sketch, _SPLIT, shade=0.25)


def feathers(sketch: "Sketch", rng: np.random.Generator, extent: complex) -> None:
    """Elongated, too, and with a hard contrast."""
    feathers = _Scatter(rng, extent, 2, 0.07, 0.13, _BLOOMS)
    feathers.add(sketch, _FEATHER)
    feathers.add(sketch, _VANE, shade=0.35)
    feathers.add(sketch, _RIB, shade=-0.4)
