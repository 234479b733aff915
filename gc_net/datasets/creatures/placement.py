"""A creature in an image: size of the image; position, size and angle of the creature."""

import dataclasses
from typing import Self

import numpy as np

from gc_net.datasets.creatures.canvas import Sketch, composite, paint_layer, plane

_EXTENT = (0.55, 0.9)  # longer side of a creature's box, relative to the image
_MARGIN = 0.02  # of the image, kept free around it
_SHORTEST = 0.72  # shorter side of an image, relative to the longer
_RELIEF = 0.06  # roundness, relative to the length of a creature
_SUPERSAMPLING = 2


@dataclasses.dataclass(frozen=True)
class PlacedCreature:
    """Attributes:
    creature: The whole animal.
    head: Its head, in the same frame.
    scale: Complex; turns and scales the frame to pixels.
    offset: Complex; where the frame's origin lies.
    height: Of the image, in pixels.
    width: Of the image, in pixels.
    window: (left, top, right, bottom), whole pixels around the creature and its shadow. Only this
        part is painted and lit.
    """

    creature: Sketch
    head: Sketch
    scale: complex
    offset: complex
    height: int
    width: int
    window: tuple[int, int, int, int]

    @classmethod
    def random(
        cls, rng: np.random.Generator, creature: Sketch, head: Sketch, image_size: int
    ) -> Self:
        """Return a creature at a random place in an image whose longer side is `image_size`."""
        form, ratio, turn, extent, *place = rng.random(6)
        short = round(image_size * (_SHORTEST + (1 - _SHORTEST) * ratio))
        width, height = ((1, 1), (1, 0), (0, 1))[int(3 * form)]
        size = np.where((width, height), image_size, short)

        turn = np.exp(2j * np.pi * turn)
        low, high = creature.bounds(turn)
        spread = np.array(((high - low).real, (high - low).imag))
        scale = (_EXTENT[0] + (_EXTENT[1] - _EXTENT[0]) * extent) / np.max(spread / size)
        corner = size * _MARGIN + (size * (1 - 2 * _MARGIN) - scale * spread) * place
        reach = 2 + 3 * _RELIEF * scale
        start = np.maximum(corner - reach, 0).astype(int)
        end = np.minimum(corner + scale * spread + reach, size).astype(int)
        return cls(
            creature, head, scale * turn, plane(corner) - scale * low,
            height=int(size[1]), width=int(size[0]), window=(*start.tolist(), *end.tolist()),
        )  # fmt: skip

    def _paint(self, sketch, channels):
        left, top, right, bottom = self.window
        offset = self.offset - complex(left, top)
        return paint_layer(
            sketch, self.scale, offset, bottom - top, right - left, channels, _SUPERSAMPLING
        )

    def mask(self, sketch: Sketch) -> np.ndarray:
        """Return the bool mask [height, width] of the creature or of its head."""
        left, top, right, bottom = self.window
        mask = np.zeros((self.height, self.width), bool)
        mask[top:bottom, left:right] = self._paint(sketch, channels=1) >= 128
        return mask

    def draw(self, scene: np.ndarray, light: complex) -> np.ndarray:
        """Draw the creature on a scene, uint8 [height, width, 3], in place; return it."""
        left, top, right, bottom = self.window
        window = scene[top:bottom, left:right]
        layer = self._paint(self.creature, channels=4)
        window[:] = composite(window, layer, light, _RELIEF * abs(self.scale))
        return scene
