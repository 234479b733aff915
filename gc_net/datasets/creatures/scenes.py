"""Where creatures live: textured ground, and things lying on it that say nothing of the class.

A scene is a palette, what covers its ground, and what lies there. Coordinates are in units of
the image's longer side.
"""

import dataclasses

import cv2
import numpy as np

from gc_net.datasets.creatures.canvas import (
    CIRCLE,
    Sketch,
    composite,
    multiply,
    paint_layer,
    plane,
    tint,
)
from gc_net.datasets.creatures.heads import HEADS

_CLASS_COLOURS = tuple(head.colour for head in HEADS.values())


def _flat(template, height):
    return template.real + 1j * height * template.imag


_TURN = np.linspace(0, 2 * np.pi, 30, endpoint=False)
_CORNERS = np.exp(1j * np.arange(6) * (np.pi / 3))
_STONE = CIRCLE * (1 + 0.1 * np.cos(2 * np.angle(CIRCLE) + 1) + 0.07 * np.sin(3 * np.angle(CIRCLE)))
_BLADE = plane([(0, -0.045), (0.5, -0.04), (1, 0), (0.5, 0.04), (0, 0.045)])
_HALF_LEAF = plane([(-1, 0), (-0.6, 0.3), (0, 0.42), (0.6, 0.25), (1.05, 0)])
_LEAF = np.concatenate([_HALF_LEAF, _HALF_LEAF[-2:0:-1].conj()])
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
        self.places = plane(uniform[:2].T * extent)[:, None]
        sizes = low + (high - low) * uniform[2]
        turns = turns[0] + (turns[1] - turns[0]) * uniform[3]
        self.scales = (sizes * np.exp(1j * turns))[:, None]
        colours = np.array(colours, np.float64)[(uniform[4] * len(colours)).astype(int)]
        self.colours = colours + (2 * spread) * (uniform[4:].T - 0.5)

    def add(self, sketch, template, shade=0.0, colour=None):
        points = self.scales * template + self.places
        colours = self.colours if colour is None else colour
        sketch.polygons(points, tint(colours, shade) if shade else colours)


def _grass(sketch, rng, extent, colours):
    upwards = (-np.pi / 2 - 1.1, -np.pi / 2 + 1.1)
    _Scatter(rng, extent, 44, 0.08, 0.18, colours, turns=upwards).add(sketch, _BLADE)


def _speckles(sketch, rng, extent, colours):
    _Scatter(rng, extent, 24, 0.004, 0.011, colours).add(sketch, _CORNERS)


def _ripples(sketch, rng, extent, colours):
    ripples = _Scatter(rng, extent, 18, 0.04, 0.2, colours, spread=5, turns=(-0.4, 0.4))
    ripples.add(sketch, _RIPPLE)


def _litter(sketch, rng, extent, colours):
    leaves = _Scatter(rng, extent, 22, 0.025, 0.06, colours)
    leaves.add(sketch, _LEAF)
    leaves.add(sketch, _RIB, shade=-0.35)


def _lichen(sketch, rng, extent, colours):
    patches = _Scatter(rng, extent, 12, 0.015, 0.06, colours, spread=8)
    patches.add(sketch, _FLOWER)
    patches.add(sketch, 0.6 * _FLOWER, shade=0.25)


def _stones(sketch, rng, extent):
    greys = ((150, 144, 136), (120, 116, 118), (176, 160, 140), (98, 100, 108), (196, 188, 176))
    stones = _Scatter(rng, extent, 5, 0.025, 0.09, greys)
    stones.add(sketch, _flat(_STONE, 0.72))
    stones.add(sketch, _flat(0.55 * _STONE, 0.64), shade=0.15)


def _leaves(sketch, rng, extent):
    colours = ((96, 140, 60), (190, 120, 44), (160, 70, 40))
    leaves = _Scatter(rng, extent, 5, 0.05, 0.1, colours)
    leaves.add(sketch, _LEAF)
    leaves.add(sketch, _RIB, shade=-0.35)


def _pads(sketch, rng, extent):
    colours = ((86, 146, 78), (112, 164, 84), (70, 122, 84))
    pads = _Scatter(rng, extent, 5, 0.05, 0.11, colours)
    pads.add(sketch, _PAD)
    pads.add(sketch, 0.72 * _PAD, shade=0.14)


def _flowers(sketch, rng, extent):
    flowers = _Scatter(rng, extent, 6, 0.022, 0.045, _CLASS_COLOURS)
    flowers.add(sketch, _FLOWER)
    flowers.add(sketch, 0.6 * _FLOWER, shade=0.4)
    flowers.add(sketch, 0.26 * _CORNERS, colour=(252, 214, 84))


def _mushrooms(sketch, rng, extent):
    caps = _Scatter(rng, extent, 3, 0.03, 0.06, _CLASS_COLOURS)
    caps.add(sketch, CIRCLE)
    for place in (0.1 - 0.45j, -0.45 + 0.1j, 0.4 + 0.3j, -0.15 + 0.55j):
        caps.add(sketch, 0.17 * CIRCLE + place, colour=(250, 244, 230))


def _starfish(sketch, rng, extent):
    stars = _Scatter(rng, extent, 3, 0.04, 0.075, _CLASS_COLOURS)
    stars.add(sketch, _STARFISH)
    stars.add(sketch, 0.55 * _STARFISH, shade=0.3)


def _sticks(sketch, rng, extent):
    """Elongated like a creature, so that being long does not give one away."""
    sticks = _Scatter(rng, extent, 2, 0.14, 0.26, ((112, 84, 60), (140, 112, 80), (88, 70, 58)))
    sticks.add(sketch, _flat(_STONE, 0.09))
    sticks.add(sketch, _flat(0.8 * _STONE, 0.04), shade=0.25)


def _feathers(sketch, rng, extent):
    """Elongated, and in the colours of the classes: colour alone is no proof either."""
    feathers = _Scatter(rng, extent, 2, 0.07, 0.13, _CLASS_COLOURS)
    feathers.add(sketch, _flat(_LEAF, 0.62))
    feathers.add(sketch, _flat(0.7 * _LEAF, 0.4), shade=0.35)
    feathers.add(sketch, _RIB, shade=-0.4)


@dataclasses.dataclass(frozen=True)
class Scene:
    """Ground colours from hollow to height, what covers it, in what colours, what lies on it."""

    ramp: tuple
    cover: tuple
    cover_colours: tuple
    things: tuple


SCENES = {
    "meadow": Scene(
        ((44, 84, 44), (84, 130, 56), (134, 166, 78), (172, 190, 108)),
        (_grass, _speckles), ((96, 148, 64), (62, 112, 54), (150, 180, 90)),
        (_flowers, _stones, _feathers),
    ),
    "forest": Scene(
        ((52, 40, 34), (86, 64, 46), (122, 92, 62), (96, 104, 60)),
        (_litter, _speckles), ((150, 98, 48), (172, 124, 60), (116, 74, 46), (108, 116, 58)),
        (_mushrooms, _sticks, _leaves),
    ),
    "beach": Scene(
        ((190, 160, 116), (216, 190, 146), (232, 212, 172), (242, 228, 196)),
        (_speckles,), ((160, 128, 90), (244, 236, 214), (128, 112, 100)),
        (_stones, _starfish, _sticks),
    ),
    "pond": Scene(
        ((22, 70, 84), (36, 104, 112), (62, 142, 140), (122, 184, 170)),
        (_ripples,), ((150, 206, 194), (98, 172, 168)),
        (_pads, _flowers, _leaves),
    ),
    "rock": Scene(
        ((78, 76, 82), (112, 108, 110), (146, 140, 136), (176, 168, 158)),
        (_lichen, _speckles), ((150, 160, 96), (196, 170, 90), (128, 140, 116), (90, 88, 92)),
        (_stones, _feathers, _leaves),
    ),
}  # fmt: skip


def _colour_table(ramp):
    stops = np.linspace(0, 255, len(ramp))
    channels = [np.interp(np.arange(256), stops, channel) for channel in zip(*ramp, strict=True)]
    return np.stack(channels, axis=-1).astype(np.uint8)[:, None]  # [256, 1, 3]


_TABLES = [_colour_table(scene.ramp) for scene in SCENES.values()]


def _noise(rng, height, width):
    """Return smooth noise, uint8 [height, width]: four octaves of random hills."""
    total = np.zeros((height, width), np.float32)
    for cells, weight in ((3, 1.0), (7, 0.6), (18, 0.35), (48, 0.22)):
        hills = rng.random((cells, cells), np.float32) * np.float32(weight)
        total += cv2.resize(hills, (width, height), interpolation=cv2.INTER_LINEAR)
    return cv2.normalize(total, None, 0, 255, cv2.NORM_MINMAX, cv2.CV_8U)


def paint_scene(rng, height, width, light):
    """Return an empty scene, uint8 [height, width, 3] RGB, lit from `light` (complex)."""
    number = rng.integers(len(SCENES))
    scene = tuple(SCENES.values())[number]
    size = max(height, width)
    extent = np.array((width, height)) / size

    image = cv2.applyColorMap(_noise(rng, height, width), _TABLES[number])
    cover, things = Sketch(), Sketch()
    for spread in scene.cover:
        spread(cover, rng, extent, scene.cover_colours)
    for lay in scene.things:
        lay(things, rng, extent)
    cover.paint(image, size)

    x = np.linspace(-28, 28, width) * light.real
    y = np.linspace(-28, 28, height) * light.imag
    glow = (y[:, None] + (x + 215)).astype(np.uint8)  # brighter towards the light
    image = multiply(image, glow, one=225)
    return composite(image, paint_layer(things, size, 0.0, height, width), light, size / 40)
