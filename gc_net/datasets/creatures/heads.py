"""The ten heads, which distinguish the classes.

Each head is drawn in its own frame: the skull has a radius of about one unit around the origin, and
the snout points to +x. A new class is one function here and a line in `HEADS`.
"""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from gc_net.datasets.creatures.canvas import Sketch, plane, tint

_IVORY = (244, 236, 212)
_INK = (24, 20, 26)
_SIDES = (-1.0, 1.0)
_TURN = np.linspace(0, 2 * np.pi, 24, endpoint=False)


def _skull(sketch, colour, length=1.2, width=0.92):
    x = np.where(np.cos(_TURN) > 0, length, 0.95) * np.cos(_TURN)
    sketch.polygons(x + 1j * width * np.sin(_TURN) * (1 - 0.12 * x), colour)


def _eyes(sketch, x=0.35, y=0.52, radius=0.27, iris=(255, 250, 235)):
    for side in _SIDES:
        sketch.disc((x, side * y), radius, iris)
        sketch.disc((x + radius * 0.25, side * y), radius * 0.58, _INK)


def _horned(sketch, colour):
    for side in _SIDES:
        path = np.array([(-0.1, 0.6), (0.4, 1.25), (1.1, 1.45), (1.85, 1.1)]) * (1, side)
        sketch.tube(path, (0.36, 0.32, 0.22, 0.04), _IVORY)
    _skull(sketch, colour)
    _eyes(sketch)


def _crested(sketch, colour):
    x = np.linspace(0, 1, 7)
    edge = -2.1 * x + 0.34j * np.sin(np.pi * x**0.8)
    plume = np.concatenate([edge, edge[::-1].conj()])
    for number, angle in enumerate((-1.25, 1.25, -0.65, 0.65, 0.0)):
        amount = 0.45 if number % 4 else 0.15
        sketch.polygons(plume * np.exp(1j * angle), tint(colour, amount))
    _skull(sketch, colour)
    _eyes(sketch)


def _beaked(sketch, colour):
    beak = plane([(0.5, -0.62), (1.4, -0.3), (2.7, 0), (1.4, 0.3), (0.5, 0.62)])
    sketch.polygons(beak, (250, 200, 48))
    sketch.polygons(plane([(0.9, -0.07), (2.6, 0), (0.9, 0.07)]), (150, 96, 20))
    _skull(sketch, colour, length=1.0)
    _eyes(sketch, x=0.3)


def _frilled(sketch, colour):
    angle = np.linspace(0, 2 * np.pi, 72, endpoint=False)
    scallop = 1 + 0.07 * np.abs(np.sin(angle * 6))
    for radius, amount in ((2.0, 0.0), (1.62, 0.5), (1.4, 0.1)):
        frill = radius * scallop * (0.8 * np.cos(angle) + 1j * np.sin(angle)) - 0.35
        sketch.polygons(frill, tint(colour, amount))
    _skull(sketch, tint(colour, -0.3))
    _eyes(sketch)


def _goggled(sketch, colour):
    _skull(sketch, colour, length=1.1)
    for side in _SIDES:
        sketch.disc((0.35, side * 0.9), 0.86, tint(colour, -0.35))
    _eyes(sketch, x=0.4, y=0.92, radius=0.7, iris=(255, 236, 150))


def _hammerhead(sketch, colour):
    path = [(0.45, -1.9), (0.8, -0.9), (0.9, 0), (0.8, 0.9), (0.45, 1.9)]
    sketch.tube(path, (0.42, 0.5, 0.56, 0.5, 0.42), tint(colour, -0.12))
    _skull(sketch, colour, length=0.9)
    _eyes(sketch, x=0.5, y=1.85, radius=0.32)


def _feelered(sketch, colour):
    for side in _SIDES:
        path = np.array([(0.7, 0.3), (1.5, 0.65), (2.0, 1.3), (1.75, 2.0)]) * (1, side)
        sketch.tube(path, (0.2, 0.17, 0.15, 0.15), tint(colour, -0.4))
        sketch.disc(path[-1], 0.42, tint(colour, 0.45))
    _skull(sketch, colour)
    _eyes(sketch)


def _starred(sketch, colour):
    rays = np.resize((1.35, 0.62), 18) * np.exp(1j * np.arange(18) * (np.pi / 9))
    _skull(sketch, tint(colour, -0.45), length=1.0)
    sketch.polygons(rays + 0.95, colour)
    sketch.disc((0.95, 0), 0.34, tint(colour, -0.5))
    _eyes(sketch, x=-0.2, y=0.5, radius=0.24)


def _eared(sketch, colour):
    for side in _SIDES:
        sketch.disc((-0.25, side * 1.2), 0.88, colour)
        sketch.disc((-0.18, side * 1.25), 0.56, (244, 190, 176))
    _skull(sketch, colour)
    sketch.disc((0.9, 0), 0.42, tint(colour, 0.6))
    sketch.disc((1.1, 0), 0.17, _INK)
    _eyes(sketch, radius=0.22)


def _arrowed(sketch, colour):
    half = plane([(1.6, 0), (0.3, 1.1), (-1.3, 2.05), (-0.75, 0.75), (-0.9, 0)])
    arrow = np.concatenate([half, half[3:0:-1].conj()])
    sketch.polygons(arrow, colour)
    sketch.polygons(arrow * 0.61 + 0.1, tint(colour, 0.45))
    _eyes(sketch, x=0.45, y=0.4, radius=0.24)


@dataclasses.dataclass(frozen=True)
class Head:
    """The parts of a class: the drawing of its head, and its colour."""

    draw: Callable
    colour: tuple[int, int, int]

    @functools.cache  # noqa: B019 (heads live as long as the process)
    def sketch(self, shift: float = 0.0) -> Sketch:
        """Return the head as a `Sketch`, its colour moved to light or dark by `shift`."""
        sketch, merged = Sketch(), Sketch()
        self.draw(sketch, tint(self.colour, shift))
        merged.merge(sketch)  # one array instead of many: it is merged again for each image
        return merged


HEADS = {
    "horned": Head(_horned, (190, 44, 50)),
    "crested": Head(_crested, (238, 122, 34)),
    "beaked": Head(_beaked, (40, 74, 150)),
    "frilled": Head(_frilled, (206, 58, 138)),
    "goggled": Head(_goggled, (126, 186, 52)),
    "hammerhead": Head(_hammerhead, (84, 152, 200)),
    "feelered": Head(_feelered, (118, 78, 186)),
    "starred": Head(_starred, (246, 148, 164)),
    "eared": Head(_eared, (122, 74, 44)),
    "arrowed": Head(_arrowed, (22, 152, 140)),
}
