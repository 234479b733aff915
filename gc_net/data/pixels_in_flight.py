"""How many pixels all threads together may have decoded at once, whatever the images are.

One image is bounded by its own limit. Some files of a megabyte, each just below it, would still
take gigabytes when every thread decodes one of them.
"""

import contextlib
import threading
from collections.abc import Iterator


class PixelsInFlight:
    """Lets threads decode side by side as long as their images are no more than `limit` pixels.

    A single image is always let in, so that one of any size can be decoded when its turn comes.

    Args:
        limit: Pixels of all images that are being decoded, or were and are still worked with.

    Example:
        with in_flight.image():
            image = read_image(path)  # waits here while others have too much in their hands
            small = squash(image, 256)
    """

    def __init__(self, limit: int):
        self.limit = limit
        self._taken = 0
        self._changed = threading.Condition()
        self._thread = threading.local()

    @contextlib.contextmanager
    def image(self) -> Iterator[None]:
        """Count what this thread decodes within the `with` block until the block ends."""
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
        """Wait until `pixels` can be decoded. Outside of all blocks nothing is counted.

        A block's next image takes the place of the one before. It would else wait for others that
        wait for it.
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
