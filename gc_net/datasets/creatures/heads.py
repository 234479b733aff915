"""The ten heads: what tells one class from another.

Each head is drawn in its own frame: the skull is about one unit in radius around the origin, the
snout points to +x. A new class is one function here with a line in `HEADS`.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from gc_net.datasets.creatures.canvas import Sketch, tint

_IVORY = (244, 236, 212)
_INK = (24, 20, 26)
_SIDES = (-1.0, 1.0)


def _skull(sketch, colour, length=1.2, width=0.92):
    angle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    x = np.where(np.cos(angle) > 0, length, 0.95) * np.cos(angle)
    sketch.polygon(np.stack([x, width * np.sin(angle) * (1 - 0.12 * x)], axis=-1), colour)


def _eyes(sketch, x=0.35, y=0.52, radius=0.27, iris=(255, 250, 235)):
    for side in _SIDES:
        sketch.disc((x, side * y), radius, iris)
        sketch.disc((x + radius * 0.25, side * y), radius * 0.58, _INK)


def _leaf(length, width, points=7):
    """Return a pointed leaf from the origin along +x, [2 · points, 2]."""
    x = np.linspace(0, 1, points)
    y = np.sin(np.pi * x**0.8) * width
    upper = np.stack([x * length, y], axis=-1)
    return np.concatenate([upper, upper[::-1] * (1, -1)])


def _turned(points, angle):
    cosine, sine = np.cos(angle), np.sin(angle)
    return points @ np.array([[cosine, sine], [-sine, cosine]])


def _horned(sketch, colour):
    for side in _SIDES:
        path = np.array([(-0.1, 0.6), (0.4, 1.25), (1.1, 1.45), (1.85, 1.1)]) * (1, side)
        sketch.tube(path, (0.36, 0.32, 0.22, 0.04), _IVORY)
    _skull(sketch, colour)
    _eyes(sketch)


def _crested(sketch, colour):
    for number, angle in enumerate((-1.25, 1.25, -0.65, 0.65, 0.0)):
        plume = _turned(_leaf(-2.1, 0.34), angle)
        sketch.polygon(plume, tint(colour, 0.45 if number % 4 else 0.15))
    _skull(sketch, colour)
    _eyes(sketch)


def _beaked(sketch, colour):
    sketch.polygon([(0.5, -0.62), (1.4, -0.3), (2.7, 0), (1.4, 0.3), (0.5, 0.62)], (250, 200, 48))
    sketch.polygon([(0.9, -0.07), (2.6, 0), (0.9, 0.07)], (150, 96, 20))
    _skull(sketch, colour, length=1.0)
    _eyes(sketch, x=0.3)


def _frilled(sketch, colour):
    angle = np.linspace(0, 2 * np.pi, 72, endpoint=False)
    for radius, amount in ((2.0, 0.0), (1.62, 0.5), (1.4, 0.1)):
        scallop = radius * (1 + 0.07 * np.abs(np.sin(angle * 6)))
        frill = np.stack([scallop * np.cos(angle) * 0.8 - 0.35, scallop * np.sin(angle)], axis=-1)
        sketch.polygon(frill, tint(colour, amount))
    _skull(sketch, tint(colour, -0.3))
    _eyes(sketch)


def _goggled(sketch, colour):
    _skull(sketch, colour, length=1.1)
    for side in _SIDES:
        sketch.disc((0.35, side * 0.9), 0.86, tint(colour, -0.35))
    _eyes(sketch, x=0.4, y=0.92, radius=0.7, iris=(255, 236, 150))


def _hammered(sketch, colour):
    sketch.tube(
        [(0.45, -1.9), (0.8, -0.9), (0.9, 0), (0.8, 0.9), (0.45, 1.9)],
        (0.42, 0.5, 0.56, 0.5, 0.42),
        tint(colour, -0.12),
    )
    _skull(sketch, colour, length=0.9)
    _eyes(sketch, x=0.5, y=1.85, radius=0.32)


def _feelered(sketch, colour):
    for side in _SIDES:
        path = np.array([(0.7, 0.3), (1.5, 0.65), (2.0, 1.3), (1.75, 2.0)]) * (1, side)
        sketch.tube(path, (0.17, 0.14, 0.12, 0.12), tint(colour, -0.4))
        sketch.disc(path[-1], 0.4, tint(colour, 0.45))
    _skull(sketch, colour)
    _eyes(sketch)


def _starred(sketch, colour):
    angle = np.arange(18) * (np.pi / 9)
    radius = np.where(np.arange(18) % 2, 0.62, 1.35)
    star = np.stack([radius * np.cos(angle) + 0.95, radius * np.sin(angle)], axis=-1)
    _skull(sketch, tint(colour, -0.45), length=1.0)
    sketch.polygon(star, colour)
    sketch.disc((0.95, 0), 0.34, tint(colour, -0.5))
    _eyes(sketch, x=-0.2, y=0.5, radius=0.24)


def _eared(sketch, colour):
    for side in _SIDES:
        sketch.disc((-0.25, side * 1.2), 0.88, colour)
        sketch.disc((-0.18, side * 1.25), 0.56, (244, 190, 176))
    _skull(sketch, colour)
    sketch.disc((0.95, 0), (0.36, 0.46), tint(colour, 0.6))
    sketch.disc((1.12, 0), 0.17, _INK)
    _eyes(sketch, radius=0.22)


def _arrowed(sketch, colour):
    arrow = [(1.6, 0), (0.3, 1.1), (-1.3, 2.05), (-0.75, 0.75), (-0.9, 0)]
    arrow += [(x, -y) for x, y in arrow[3:0:-1]]
    sketch.polygon(arrow, colour)
    sketch.polygon(np.array(arrow) * (0.6, 0.62) + (0.1, 0), tint(colour, 0.45))
    _eyes(sketch, x=0.45, y=0.4, radius=0.24)


@dataclasses.dataclass(frozen=True)
class Head:
    """What a class is made of: the drawing of its head, and its colour."""

    draw: Callable
    colour: tuple[int, int, int]

    def sketch(self, shift=0.0):
        """Return the head as a `Sketch`, its colour moved to light or dark by `shift`."""
        sketch = Sketch()
        self.draw(sketch, tint(self.colour, shift))
        return sketch


HEADS = {
    "horned": Head(_horned, (190, 44, 50)),
    "crested": Head(_crested, (238, 122, 34)),
    "beaked": Head(_beaked, (40, 74, 150)),
    "frilled": Head(_frilled, (206, 58, 138)),
    "goggled": Head(_goggled, (126, 186, 52)),
    "hammered": Head(_hammered, (84, 152, 200)),
    "feelered": Head(_feelered, (118, 78, 186)),
    "starred": Head(_starred, (246, 148, 164)),
    "eared": Head(_eared, (122, 74, 44)),
    "arrowed": Head(_arrowed, (22, 152, 140)),
}
