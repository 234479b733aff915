"""Where creatures live: a textured ground with things on it."""

import dataclasses

import cv2
import numpy as np

from gc_net.datasets.creatures import things
from gc_net.datasets.creatures.canvas import Sketch, composite, multiply, paint_layer


@dataclasses.dataclass(frozen=True)
class Scene:
    """Colours of the ground from low to high, its cover and the cover's colours, things on it."""

    ramp: tuple
    cover: tuple
    cover_colours: tuple
    things: tuple


SCENES = {
    "meadow": Scene(
        ((44, 84, 44), (84, 130, 56), (134, 166, 78), (172, 190, 108)),
        (things.grass, things.speckles),
        ((96, 148, 64), (62, 112, 54), (150, 180, 90)),
        (things.flowers, things.stones, things.feathers),
    ),
    "forest": Scene(
        ((52, 40, 34), (86, 64, 46), (122, 92, 62), (96, 104, 60)),
        (things.litter, things.speckles),
        ((150, 98, 48), (172, 124, 60), (116, 74, 46), (108, 116, 58)),
        (things.mushrooms, things.sticks, things.leaves),
    ),
    "beach": Scene(
        ((190, 160, 116), (216, 190, 146), (232, 212, 172), (242, 228, 196)),
        (things.speckles,),
        ((160, 128, 90), (244, 236, 214), (128, 112, 100)),
        (things.stones, things.starfish, things.sticks),
    ),
    "pond": Scene(
        ((22, 70, 84), (36, 104, 112), (62, 142, 140), (122, 184, 170)),
        (things.ripples,),
        ((150, 206, 194), (98, 172, 168)),
        (things.pads, things.flowers, things.leaves),
    ),
    "rock": Scene(
        ((78, 76, 82), (112, 108, 110), (146, 140, 136), (176, 168, 158)),
        (things.lichen, things.speckles),
        ((150, 160, 96), (196, 170, 90), (128, 140, 116), (90, 88, 92)),
        (things.stones, things.feathers, things.leaves),
    ),
}  # fmt: skip


def _colour_table(ramp):
    stops = np.linspace(0, 255, len(ramp))
    channels = [np.interp(np.arange(256), stops, channel) for channel in zip(*ramp, strict=True)]
    return np.stack(channels, axis=-1).astype(np.uint8)[:, None]  # [256, 1, 3]


_TABLES = [_colour_table(scene.ramp) for scene in SCENES.values()]
_COVER_COLOURS = [np.array(scene.cover_colours) for scene in SCENES.values()]


def _noise(rng, height, width):
    """Return smooth noise, uint8 [height, width]: four octaves of random hills."""
    total = np.zeros((height, width), np.float32)
    for cells, weight in ((3, 1.0), (7, 0.6), (18, 0.35), (48, 0.22)):
        hills = rng.random((cells, cells), np.float32) * np.float32(weight)
        total += cv2.resize(hills, (width, height), interpolation=cv2.INTER_LINEAR)
    return cv2.normalize(total, None, 0, 255, cv2.NORM_MINMAX, cv2.CV_8U)


def paint_scene(rng: np.random.Generator, height: int, width: int, light: complex) -> np.ndarray:
    """Return an empty scene, uint8 [height, width, 3] RGB, lit from `light` (complex)."""
    number = rng.integers(len(SCENES))
    scene = tuple(SCENES.values())[number]
    size = max(height, width)
    extent = complex(width, height) / size

    image = cv2.applyColorMap(_noise(rng, height, width), _TABLES[number])
    cover, layer = Sketch(), Sketch()
    for spread in scene.cover:
        spread(cover, rng, extent, _COVER_COLOURS[number])
    for lay in scene.things:
        lay(layer, rng, extent)
    cover.paint(image, size)

    x = np.linspace(-28, 28, width) * light.real
    y = np.linspace(-28, 28, height) * light.imag
    glow = (y[:, None] + (x + 215)).astype(np.uint8)  # brighter towards the light
    image = multiply(image, glow, one=225)
    return composite(image, paint_layer(layer, size, 0.0, height, width), light, size / 40)
