"""Reads batches of squashed images by index, on several threads, and collects failures."""

import concurrent.futures
import functools
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import cv2
import numpy as np

from gc_net.data.decode import IN_FLIGHT
from gc_net.data.names import printable, some_lines
from gc_net.data.splits import DataError, ImageError
from gc_net.data.transforms import squash, take

if TYPE_CHECKING:
    from gc_net.data import transforms
    from gc_net.data.cache import ImageCache
    from gc_net.data.splits import Split

_log = logging.getLogger("gc_net")


class Unreadable:
    """The images that could not be read, each with its reason. Safe to share between threads.

    Args:
        announce: Whether each image is logged when it is first found.

    Example:
        unreadable = Unreadable()
        model.fit(training_batches(split, ..., unreadable=unreadable))
        print(unreadable.summary())
    """

    def __init__(self, announce: bool = False):
        self.announce = announce
        self._reasons = {}
        self._lock = threading.Lock()

    def add(self, file: str, reason: str) -> None:
        with self._lock:
            new = file not in self._reasons
            self._reasons[file] = reason
        if new and self.announce:
            _log.warning("Skipped %s, which cannot be read: %s.", printable(file), reason)

    def __len__(self):
        return len(self._reasons)

    def __iter__(self):
        """Iterate over (file, reason) in the order of the names."""
        with self._lock:
            return iter(sorted(self._reasons.items()))

    def summary(self, limit: int = 10) -> str:
        """Return one message that names the files, or an empty string if all could be read."""
        if not self._reasons:
            return ""
        found = list(self)
        plural = "image" if len(found) == 1 else "images"
        names = (f"{printable(file)}: {reason}" for file, reason in found)
        return "\n".join([f"{len(found)} unreadable {plural} skipped:", *some_lines(names, limit)])


class Loader:
    """Turns indices of a split into windows of squashed images.

    Args:
        split: The `Split` to read from.
        resize_size, image_size: Sides of the squashed image and of the windows.
        cache: An `ImageCache` of that split and size, or None.
        unreadable: The `Unreadable` that failures are added to.
        num_used: How many of the split's images will be read; it is an error if all of them fail.
    """

    def __init__(
        self,
        split: "Split",
        resize_size: int,
        image_size: int,
        cache: "ImageCache | None",
        unreadable: Unreadable,
        num_used: int | None,
    ):
        self.split = split
        self.resize_size = resize_size
        self.image_size = image_size
        self.cache = cache
        self.unreadable = unreadable
        self.num_used = num_used
        self._failed = set()

    def squashed(self, index: int) -> tuple[np.ndarray, tuple[int, int]]:
        """Return one squashed image [R, R, 3] and its original (height, width)."""
        return self._stored(index) or self._decoded(index)

    def _stored(self, index):
        return self.cache.get(index) if self.cache else None

    def _decoded(self, index):
        with IN_FLIGHT.image():
            image, size = read_reduced(self.split.read, index, self.resize_size)
            image = squash(image, self.resize_size)
        if self.cache:
            self.cache.put(index, image, size)
        return image, size

    def load(
        self, indices: np.ndarray, windows_of: "Callable[[int], Sequence[transforms.Window]]"
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Read images on all threads; the result does not depend on their speed.

        Args:
            indices: [B] integers.
            windows_of: Function of an index to the list of W windows to take of that image.

        Returns:
            images: uint8 [B', W, S, S, 3] of the B' images that could be read, in order.
            sizes: int32 [B', 2], original height and width.
            readable: bool [B], which ones they are.
        """
        num_windows = len(windows_of(indices[0]))
        images = np.empty(
            (len(indices), num_windows, self.image_size, self.image_size, 3), np.uint8
        )
        sizes = np.zeros((len(indices), 2), np.int32)

        def fill(row, image, size):
            sizes[row] = size
            for out, window in zip(images[row], windows_of(int(indices[row])), strict=True):
                take(image, window, self.image_size, out)

        def decode(rows):
            for row in rows:
                index = int(indices[row])
                try:
                    fill(row, *self._decoded(index))
                except ImageError as error:
                    self._fail(index, error)

        missing = []
        for row, index in enumerate(indices):
            stored = self._stored(int(index))
            if stored is None:
                missing.append(row)
            else:  # on this thread: a few microseconds are not worth handing over
                fill(row, *stored)
        if missing:
            tasks = np.array_split(missing, min(len(missing), 2 * _num_threads()))
            for _ in _pool().map(decode, tasks):
                pass
        readable = sizes[:, 0] > 0
        if not readable.all():
            images, sizes = images[readable], sizes[readable]
        return images, sizes, readable

    def _fail(self, index, error):
        self.unreadable.add(self.split.file(index), str(error))
        self._failed.add(index)
        if len(self._failed) == self.num_used:
            raise DataError(
                f"None of the {self.num_used} images of the {self.split.name!r} split in "
                f"{self.split.root} can be read.\n{self.unreadable.summary()}"
            )


def read_reduced(
    read: Callable[[int], np.ndarray], index: int, target: int
) -> tuple[np.ndarray, tuple[int, int]]:
    """Return an image and its full (height, width).

    Args:
        read: The `read` of a split. If it has a method `reduced`, the image may be smaller than in
            full, which is cheaper, but not smaller than a squashed one of side `target`.
    """
    if hasattr(read, "reduced"):
        return read.reduced(index, target)
    image = read(index)
    return image, image.shape[:2]


@functools.cache
def _num_threads():
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return 2 * cores  # some wait for the disk while others decode


@functools.cache
def _pool():
    # One image a thread; OpenCV's own threads within each would only disturb each other.
    return concurrent.futures.ThreadPoolExecutor(
        _num_threads(), "gc_net-images", initializer=cv2.setNumThreads, initargs=(0,)
    )
