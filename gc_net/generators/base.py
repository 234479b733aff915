"""What a generator says of itself, beside drawing."""

from typing import ClassVar


class Generator:
    """A layer from coefficients [B, n] to masks [B, H, W, 1], built as `cls(shape, image_size)`.

    It keeps both as `shape`, a `Shape`, and `image_size`, a pair (height, width).

    Attributes:
        kind: Its name in reports; presets have weights of the losses by it.
        takes: Further arguments that a run has for it: of `epsilon`, `grid`, `network` and
            `weights` those that its constructor knows.
        learns_with_detector: Whether its weights are trained along with the detector's.
    """

    kind: ClassVar[str] = "own"
    takes: ClassVar[tuple[str, ...]] = ()
    learns_with_detector: ClassVar[bool] = False


def size_pair(image_size: int | tuple[int, int]) -> tuple[int, int]:
    """Return (height, width) of an image size, which is a pair already or the side of a square."""
    return tuple(image_size) if hasattr(image_size, "__len__") else (image_size, image_size)
