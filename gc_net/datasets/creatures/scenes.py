"""Where creatures live: textured ground, and things lying on it that say nothing of the class.

A scene is a palette, what grows on its ground, and what lies there. Coordinates are in units of
the image's longer side.
"""

import dataclasses

import cv2
import numpy as np

from gc_net.datasets.creatures.canvas import Sketch, composite, paint_layer, tint
from gc_net.datasets.creatures.heads import HEADS

_CLASS_COLOURS = np.array([head.colour for head in HEADS.values()], np.float64)


def _template(angles, radii):
    return np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=-1)


_TURN = np.linspace(0, 2 * np.pi, 16, endpoint=False)
_ROUND = _template(_TURN, 1.0)
_STONE = _template(_TURN, 1 + 0.1 * np.sin(2 * _TURN + 1) + 0.07 * np.sin(3 * _TURN))
_BLADE = np.array([(0, -0.045), (0.5, -0.04), (1, 0), (0.5, 0.04), (0, 0.045)])
_LEAF = np.array(
    [(-1, 0), (-0.6, -0.3), (0, -0.42), (0.6, -0.25), (1.05, 0), (0.6, 0.25),
     (0, 0.42), (-0.6, 0.3)]
)  # fmt: skip
_RIB = np.array([(-1.3, -0.04), (0.9, -0.015), (0.9, 0.015), (-1.3, 0.04)])
_PAD = _template(np.linspace(0.25, 2 * np.pi - 0.25, 20), 1.0)
_PAD = np.concatenate([_PAD, [(0.1, 0)]])
_FLOWER_TURN = np.linspace(0, 2 * np.pi, 30, endpoint=False)
_FLOWER = _template(_FLOWER_TURN, 0.68 + 0.32 * np.cos(5 * _FLOWER_TURN))
_ARM_TURN = np.linspace(0, 2 * np.pi, 20, endpoint=False)
_STARFISH = _template(_ARM_TURN, np.resize((1.0, 0.62, 0.4, 0.62), 20))
_RIPPLE = np.concatenate(
    [_template(np.linspace(-1.1, 1.1, 9), 1.0), _template(np.linspace(1.1, -1.1, 9), 0.94)]
)


class _Ground:
    """Random places, sizes, turns and colours for `count` copies of something."""

    def __init__(self, rng, extent, count, low, high, colours, spread=16.0):
        uniform = rng.random((count, 7))
        self.centres = uniform[:, :2] * extent
        self.sizes = low + (high - low) * uniform[:, 2]
        self.angles = uniform[:, 3] * (2 * np.pi)
        colours = np.asarray(colours, np.float64)
        picked = colours[(uniform[:, 4] * len(colours)).astype(int)]
        self.colours = picked + spread * (2 * uniform[:, 4:7] - 1)

    def add(self, sketch, template, scale=1.0, shade=0.0, shift=(0.0, 0.0)):
        colours = tint(self.colours, shade)  # a copy: the colours may change before painting
        centres = self.centres + np.asarray(shift) * self.sizes[:, None]
        sizes = self.sizes[:, None] * np.broadcast_to(scale, (2,))
        sketch.scatter(template, centres, sizes, self.angles, colours)


def _grass(sketch, rng, extent, colours):
    blades = _Ground(rng, extent, 70, 0.07, 0.17, colours)
    blades.angles = -np.pi / 2 + 1.1 * (blades.angles / np.pi - 1)  # they grow upwards
    blades.add(sketch, _BLADE)


def _speckles(sketch, rng, extent, colours):
    _Ground(rng, extent, 60, 0.003, 0.011, colours).add(sketch, _ROUND)


def _ripples(sketch, rng, extent, colours):
    ripples = _Ground(rng, extent, 16, 0.04, 0.2, colours, spread=5)
    ripples.angles = np.pi / 2 + 0.5 * (ripples.angles / np.pi - 1)
    ripples.add(sketch, _RIPPLE, scale=(0.35, 1.0))


def _litter(sketch, rng, extent, colours):
    leaves = _Ground(rng, extent, 34, 0.025, 0.06, colours)
    leaves.add(sketch, _LEAF)
    leaves.add(sketch, _RIB, shade=-0.35)


def _lichen(sketch, rng, extent, colours):
    patches = _Ground(rng, extent, 18, 0.015, 0.06, colours, spread=8)
    patches.add(sketch, _FLOWER)
    patches.add(sketch, _FLOWER, scale=0.6, shade=0.25)


def _stones(sketch, rng, extent):
    greys = ((150, 144, 136), (120, 116, 118), (176, 160, 140), (98, 100, 108), (196, 188, 176))
    stones = _Ground(rng, extent, 5, 0.025, 0.09, greys)
    stones.add(sketch, _STONE, scale=(1.0, 0.72))
    stones.add(sketch, _STONE, scale=(0.55, 0.35), shade=0.22, shift=(-0.15, -0.2))


def _leaves(sketch, rng, extent):
    leaves = _Ground(rng, extent, 5, 0.05, 0.1, ((96, 140, 60), (190, 120, 44), (160, 70, 40)))
    leaves.add(sketch, _LEAF)
    leaves.add(sketch, _RIB, shade=-0.35)


def _pads(sketch, rng, extent):
    pads = _Ground(rng, extent, 5, 0.05, 0.11, ((86, 146, 78), (112, 164, 84), (70, 122, 84)))
    pads.add(sketch, _PAD)
    pads.add(sketch, _PAD, scale=0.72, shade=0.14)


def _flowers(sketch, rng, extent):
    flowers = _Ground(rng, extent, 6, 0.022, 0.045, _CLASS_COLOURS)
    flowers.add(sketch, _FLOWER)
    flowers.add(sketch, _FLOWER, scale=0.6, shade=0.4)
    flowers.colours[:] = (252, 214, 84)
    flowers.add(sketch, _ROUND, scale=0.26)


def _mushrooms(sketch, rng, extent):
    caps = _Ground(rng, extent, 3, 0.03, 0.06, _CLASS_COLOURS)
    caps.add(sketch, _ROUND)
    caps.colours[:] = (250, 244, 230)
    for shift in ((0.1, -0.45), (-0.45, 0.1), (0.4, 0.3), (-0.15, 0.55)):
        caps.add(sketch, _ROUND, scale=0.17, shift=shift)


def _starfish(sketch, rng, extent):
    stars = _Ground(rng, extent, 3, 0.04, 0.075, _CLASS_COLOURS)
    stars.add(sketch, _STARFISH)
    stars.add(sketch, _STARFISH, scale=0.55, shade=0.3)


def _sticks(sketch, rng, extent):
    """Elongated like a creature, so that being long does not give one away."""
    sticks = _Ground(rng, extent, 2, 0.14, 0.26, ((112, 84, 60), (140, 112, 80), (88, 70, 58)))
    sticks.add(sketch, _STONE, scale=(1.0, 0.09))
    sticks.add(sketch, _STONE, scale=(0.8, 0.03), shade=0.25)


def _feathers(sketch, rng, extent):
    """Elongated, and in the colours of the classes: colour alone is no proof either."""
    feathers = _Ground(rng, extent, 2, 0.07, 0.13, _CLASS_COLOURS)
    feathers.add(sketch, _LEAF, scale=(1.0, 0.62))
    feathers.add(sketch, _LEAF, scale=(0.7, 0.3), shade=0.35)
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


def _noise(rng, height, width):
    """Return smooth noise in 0–1, float32 [height, width]: four octaves of random hills."""
    total = np.zeros((height, width), np.float32)
    for cells, weight in ((3, 1.0), (7, 0.6), (18, 0.35), (48, 0.22)):
        hills = rng.random((cells, cells), np.float32)
        total += weight * cv2.resize(hills, (width, height), interpolation=cv2.INTER_CUBIC)
    low, high, _, _ = cv2.minMaxLoc(total)
    return (total - low) * (1 / (high - low))


def paint_scene(rng, height, width, light):
    """Return an empty scene, float32 [height, width, 3] RGB."""
    scene = tuple(SCENES.values())[rng.integers(len(SCENES))]
    size = max(height, width)
    extent = np.array((width, height)) / size
    matrix = np.array([[size, 0.0, 0.0], [0.0, size, 0.0]])

    level = (255 * _noise(rng, height, width)).astype(np.uint8)
    stops = np.linspace(0, 255, len(scene.ramp))
    colours = [
        np.interp(np.arange(256), stops, channel) for channel in zip(*scene.ramp, strict=True)
    ]
    table = np.stack(colours, axis=-1).astype(np.uint8)
    image = table[level]
    cover = Sketch()
    for grow in scene.cover:
        grow(cover, rng, extent, scene.cover_colours)
    cover.paint(image, matrix)

    # Brighter towards the light, by up to a fifth.
    x = np.linspace(-0.5, 0.5, width, dtype=np.float32)
    y = np.linspace(-0.5, 0.5, height, dtype=np.float32)
    glow = 0.96 + 0.22 * (x * light[0] + (y * light[1])[:, None])
    image = image * glow[..., None].astype(np.float32)

    things = Sketch()
    for lay in scene.things:
        lay(things, rng, extent)
    return composite(image, paint_layer([things], matrix, height, width), light, relief=size / 40)
