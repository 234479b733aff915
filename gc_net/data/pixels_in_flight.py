"""A limit on the pixels that all threads together hold decoded at once.

Each image has its own limit. But a few small files, each just below it, would still take gigabytes
if every thread decoded one of them.
"""

import contextlib
import threading
from collections.abc import Iterator


class PixelsInFlight:
    """Lets threads decode in parallel while their images have no more than `limit` pixels together.

    A single image is always allowed, so an image of any size can be decoded when its turn comes.

    Args:
        limit: Pixels of all images that are being decoded or are still in use.

    Example:
        with in_flight.image():
            image = read_image(path)  # waits here while other threads hold too many pixels
            small = squash(image, 256)
    """

    def __init__(self, limit: int):
        self.limit = limit
        self._taken = 0
        self._changed = threading.Condition()
        self._thread = threading.local()

    @contextlib.contextmanager
    def image(self) -> Iterator[None]:
        """Count the pixels that this thread decodes, until the `with` block ends."""
        outer = getattr(self._thread, "pixels", None)
        if outer is not None:  # the block around this one counts
            yield
            return
        self._thread.pixels = 0
        try:
            yield
        finally:
            self._give_back()
            self._thread.pixels = None

    def take(self, pixels: int) -> None:
        """Wait until `pixels` can be decoded. Outside of all blocks, nothing is counted.

        A block's next image replaces the one before. Otherwise it could wait for threads that wait
        for it.
        """
        if getattr(self._thread, "pixels", None) is None:
            return
        self._give_back()
        with self._changed:
            self._changed.wait_for(lambda: not self._taken or self._taken + pixels <= self.limit)
            self._taken += pixels
        self._thread.pixels = pixels

    def _give_back(self):
        if self._thread.pixels:
            with self._changed:
                self._taken -= self._thread.pixels
                self._changed.notify_all()
            self._thread.pixels = 0
