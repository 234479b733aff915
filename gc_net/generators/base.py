"""The base class of generators, with their attributes."""

from typing import ClassVar


class Generator:
    """A layer from coefficients [B, n] to masks [B, H, W, 1], built as `cls(shape, image_size)`.

    It keeps both as `shape`, a `Shape`, and `image_size`, a pair (height, width).

    Attributes:
        kind: Its name in reports, and for the loss weights of presets.
        takes: Further arguments of its constructor, out of `epsilon`, `grid`, `network` and
            `weights`.
        learns_with_detector: Whether its weights are trained together with the detector's.
    """

    kind: ClassVar[str] = "own"
    takes: ClassVar[tuple[str, ...]] = ()
    learns_with_detector: ClassVar[bool] = False


def size_pair(image_size: int | tuple[int, int]) -> tuple[int, int]:
    """Return (height, width) of an image size, which is a pair or the side of a square."""
    return tuple(image_size) if hasattr(image_size, "__len__") else (image_size, image_size)
