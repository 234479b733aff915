"""Close-ups for the second look: squares around shapes, cut out of the original images.

A network sees the whole image squashed to its own size, where a small object has few pixels. The
original has more. Once a shape is placed, a square around it is cut out of the original and
squashed too. The classifier then looks again at this close-up.

Coordinates are relative to the whole image, 0 to 1 in both directions. So a square is a square of
the squashed image; on a wide original, it is wide in proportion.
"""

import dataclasses
import math
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gc_net.data import transforms
from gc_net.data.loading import Loader, Unreadable, read_reduced

if TYPE_CHECKING:
    from gc_net.data.splits import Split

# Originals that are kept between the two looks, so that a file is decoded once: about 450 photos
# of 500 × 375. What does not fit is decoded again.
KEPT_BYTES = 256 * 2**20

_WHOLE = transforms.Window(0, 0)


def check_second_look(second_look: float) -> float:
    """Return the multiple of a box's longer side as a float; raise if it cannot be one."""
    if not 0.0 <= second_look < math.inf:
        raise ValueError(
            "`second_look` must be 0, for no second look, or the side of its region as a multiple "
            f"of the longer side of the shape's box, e.g. 1.3. Received: second_look={second_look}"
        )
    return float(second_look)


def regions(boxes_rel_xyxy: Any, multiple: float, namespace: Any = np) -> Any:
    """Return the regions of the second look, relative xyxy like the boxes.

    A region is a square around a box's centre. Its side is `multiple` times the box's longer side,
    and at most the whole image. If it would reach beyond the image, it is moved back, not cut.

    Args:
        boxes_rel_xyxy: [..., 4], upright boxes of the shapes.
        multiple: Side of the region as a multiple of the box's longer side.
        namespace: `numpy`, or `keras.ops` within a graph: the arithmetic is one.
    """
    left, top, right, bottom = (boxes_rel_xyxy[..., edge] for edge in range(4))
    longer = namespace.maximum(right - left, bottom - top)
    half = namespace.minimum(multiple * longer, 1.0) / 2
    x = namespace.minimum(namespace.maximum((left + right) / 2, half), 1 - half)
    y = namespace.minimum(namespace.maximum((top + bottom) / 2, half), 1 - half)
    return namespace.stack([x - half, y - half, x + half, y + half], axis=-1)


def pixels(regions_rel_xyxy: Any, sizes: Any, namespace: Any = np) -> Any:
    """Return regions rounded to whole pixels, at least one each way.

    Args:
        regions_rel_xyxy: [..., 4], see `regions`.
        sizes: [..., 2], height and width of the images, of the same float type.
        namespace: As for `regions`.

    Returns:
        [..., 4] of that type: left, top, right and bottom edge.
    """
    height, width = sizes[..., 0], sizes[..., 1]
    edges = []
    for low, high, side in ((0, 2, width), (1, 3, height)):
        start = namespace.round(regions_rel_xyxy[..., low] * side)
        start = namespace.maximum(namespace.minimum(start, side - 1), 0.0)
        end = namespace.minimum(namespace.round(regions_rel_xyxy[..., high] * side), side)
        edges.append((start, namespace.maximum(end, start + 1)))
    (left, right), (top, bottom) = edges
    return namespace.stack([left, top, right, bottom], axis=-1)


def crop(image: np.ndarray, region_rel_xyxy: np.ndarray) -> np.ndarray:
    """Return the part of an image [H, W, 3] that a region [4] covers, as a view."""
    size = np.array(image.shape[:2], np.float32)
    left, top, right, bottom = pixels(np.float32(region_rel_xyxy), size).astype(int).tolist()
    return image[top:bottom, left:right]


def read_region(
    read: Callable[[int], np.ndarray], index: int, region_rel_xyxy: np.ndarray, target: int
) -> np.ndarray:
    """Return the part of an image in a region, decoded at a reduced size if that is enough.

    Args:
        read: The `read` of a split.
        index: Place in the split.
        region_rel_xyxy: [4], see `regions`.
        target: Side that the result is to be squashed to.
    """
    # No more pixels of a large photo are decoded than are used.
    side = max(float(region_rel_xyxy[2] - region_rel_xyxy[0]), 1e-6)
    image, _ = read_reduced(read, index, math.ceil(target / side))
    return crop(image, region_rel_xyxy)


class CloseUps:
    """Cuts regions out of a split's original images, batch by batch.

    Args:
        split: The `Split`.
        image_size: Side S that regions are squashed to.
        multiples: K multiples of the longer sides of the shapes' boxes, see `regions`.
        unreadable: `Unreadable` that collects images that could not be read a second time. If None,
            each is logged when it is found.

    Attributes:
        split: The same split, to read the images from for the first look. It keeps decoded images
            until their close-ups are made, so hardly any file is decoded twice.

    Example:
        close_ups = CloseUps(split, 160, [1.3])
        for batch in evaluation_batches(close_ups.split, image_size=160, batch_size=32):
            images, readable = close_ups.load(batch["index"].numpy(), boxes_rel_xyxy)
    """

    def __init__(
        self,
        split: "Split",
        image_size: int,
        multiples: Sequence[float],
        *,
        unreadable: Unreadable | None = None,
    ):
        self.image_size = image_size
        self.multiples = [check_second_look(multiple) for multiple in multiples]
        self._originals = _Originals(split.read)
        self.split = dataclasses.replace(split, read=self._originals)
        self._regions = {}
        count = len(self.multiples)
        # The loader reads close-ups: number k of image i has the index i·K + k.
        loaded = dataclasses.replace(
            split,
            labels=np.repeat(split.labels, count),
            files=np.repeat(split.files, count),
            read=self._read,
        )
        unreadable = Unreadable(announce=True) if unreadable is None else unreadable
        # No number of failures is an error here: the callers decide.
        self._loader = Loader(loaded, image_size, image_size, None, unreadable, num_used=None)

    def load(
        self, indices: np.ndarray, boxes_rel_xyxy: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Read close-ups on all threads.

        Args:
            indices: [B] places in the split.
            boxes_rel_xyxy: [B, 4], upright boxes of their shapes, relative to the whole images.

        Returns:
            images: uint8 [B', K, S, S, 3] of the B' images that could be read, in order.
            readable: bool [B], which ones they are.
        """
        indices = np.asarray(indices, np.int64)
        boxes_rel_xyxy = np.asarray(boxes_rel_xyxy, np.float32)
        squares = np.stack(
            [regions(boxes_rel_xyxy, multiple) for multiple in self.multiples], axis=1
        )
        count, size = len(self.multiples), self.image_size
        numbers = (indices[:, None] * count + np.arange(count)).reshape(-1)  # [B·K]
        self._regions = dict(zip(numbers.tolist(), squares.reshape(-1, 4), strict=True))
        images, _, found = self._loader.load(numbers, lambda number: [_WHOLE])
        self._originals.forget(indices.tolist())
        readable = found.reshape(-1, count).all(axis=1)
        if not readable.all():
            # If only some close-ups of an image could be read, none is returned.
            images = images[np.repeat(readable, count)[found]]
        return images.reshape(-1, count, size, size, 3), readable

    def _read(self, number):
        index = number // len(self.multiples)
        return self._originals.crop(index, self._regions[number], self.image_size)


class _Originals:
    """Reads images as the `read` of a split does, and keeps those that were decoded in full."""

    def __init__(self, read):
        self._plain = read
        self._kept = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def __call__(self, index):
        return self._plain(index)

    def reduced(self, index, target):
        """Return the image, reduced if that is cheaper, and its full (height, width)."""
        image, size = read_reduced(self._plain, index, target)
        # An image at a reduced size may have too few pixels in a region.
        if image.shape[:2] == tuple(size):
            with self._lock:
                if index not in self._kept and self._bytes + image.nbytes <= KEPT_BYTES:
                    self._kept[index] = image
                    self._bytes += image.nbytes
        return image, size

    def crop(self, index, region_rel_xyxy, target):
        """Return the part of an image in a region; decode the image again if it was not kept."""
        image = self._kept.get(index)
        if image is None:
            return read_region(self._plain, index, region_rel_xyxy, target)
        return crop(image, region_rel_xyxy)

    def forget(self, indices):
        with self._lock:
            for index in indices:
                image = self._kept.pop(index, None)
                if image is not None:
                    self._bytes -= image.nbytes
