"""A line on the terminal that shows the progress of long work."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

_SECONDS_BETWEEN = 0.1

Item = TypeVar("Item")


def track(
    items: Iterable[Item], total: int, label: str, stream: TextIO | None = None
) -> Iterator[Item]:
    """Yield `items`, showing how many of `total` are done and the time left.

    Written to `stream`, stderr by default, and only if that is a terminal: logs stay clean.

    Example:
        for image in track(images, len(images), "Reading"):
            ...
    """
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        yield from items
        return
    start = last = time.monotonic()
    done = 0
    try:
        for item in items:
            yield item
            done += 1
            now = time.monotonic()
            if now - last >= _SECONDS_BETWEEN:
                last = now
                left = max(total - done, 0) * (now - start) / done
                stream.write(f"\r{label} {done:,}/{total:,}, {duration(left)} left\x1b[K")
                stream.flush()
    finally:
        # The line is cleared for the next output, also after an interruption.
        stream.write("\r\x1b[K")
        stream.flush()


def duration(seconds: float) -> str:
    """Return seconds as `m:ss`, or `h:mm:ss` from an hour on."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
