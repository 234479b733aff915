"""Images given as files, encoded bytes or arrays, read like the images of a split."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from gc_net.data.decode import decode_with_size, read_bytes
from gc_net.data.splits import ImageError, Split


def sources_split(images: Sequence[Any], class_names: Sequence[str]) -> Split:
    """Return a `Split` of images given by the user; its labels mean nothing.

    Args:
        images: One image or a sequence of them. An image is a file name, the bytes of a file, or
            an RGB array [H, W, 3] in 0–255; an array [N, H, W, 3] is a sequence.
        class_names: Names in label order.

    Raises:
        TypeError: If one of them is something else; the message says which.
    """
    images = _as_sequence(images)
    names = [_name(index, image) for index, image in enumerate(images)]
    return Split(
        name="given",
        class_names=tuple(class_names),
        labels=np.zeros(len(images), np.int32),
        files=np.array([name.encode("utf-8", "surrogateescape") for name in names], np.bytes_),
        root="",
        read=SourceReader(images),
    )


class SourceReader:
    """Reads such images by index: the `read` of their `Split`."""

    def __init__(self, images: Sequence[Any]):
        self.images = images

    def __call__(self, index):
        return self.reduced(index, None)[0]

    def encoded(self, index: int) -> bytes | None:
        """Return the bytes of the image's file, or None if it is an array."""
        image = self.images[index]
        if isinstance(image, str | os.PathLike):
            return read_bytes(image)
        return bytes(image) if isinstance(image, bytes | bytearray | memoryview) else None

    def reduced(self, index: int, target: int) -> tuple[np.ndarray, tuple[int, int]]:
        """Return the image, reduced if that is cheaper, and its full (height, width)."""
        data = self.encoded(index)
        if data is not None:
            return decode_with_size(data, target)
        image = _as_uint8_rgb(np.asarray(self.images[index]))
        return image, image.shape[:2]


def _as_sequence(images):
    if isinstance(images, str | os.PathLike | bytes | bytearray | memoryview):
        return [images]
    if hasattr(images, "shape"):
        images = np.asarray(images)
        return [images] if images.ndim in (2, 3) else images
    return list(images)


def _name(index, image):
    if isinstance(image, str | os.PathLike):
        return os.fspath(image)
    if isinstance(image, bytes | bytearray | memoryview) or hasattr(image, "shape"):
        return f"images[{index}]"
    raise TypeError(
        f"images[{index}] is a {type(image).__name__}. Expected a file name, the bytes of an image "
        "file, or an RGB array [height, width, 3] in 0–255."
    )


def _as_uint8_rgb(image):
    if image.ndim == 2:
        image = image[..., None]
    if image.ndim != 3 or image.shape[2] not in (1, 3) or 0 in image.shape:
        raise ImageError(
            f"its shape is {image.shape}; expected [height, width, 3], or one channel of grey"
        )
    if image.dtype != np.uint8:
        if image.dtype.kind not in "iuf":
            raise ImageError(f"its values are {image.dtype}; expected numbers from 0 to 255")
        low, high = image.min(), image.max()
        if not (low >= 0 and high <= 255):  # also if one is NaN
            raise ImageError(f"its values go from {low} to {high}; expected 0 to 255")
        if image.dtype.kind == "f" and 0 < high <= 1:
            raise ImageError(
                f"its values go from {low} to {high}, probably 0–1: multiply them by 255"
            )
        image = np.rint(image).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(image, (*image.shape[:2], 3)))
