"""What annotation readers return."""

import math
from typing import NamedTuple

from gc_net.datasets.base import DataError


class Record(NamedTuple):
    """One box.

    Attributes:
        place: Where it was read, for error messages.
        files: Names the image may go by, the likeliest first.
        box_xyxy: Corners in pixels of the upright image; pixel i spans i to i + 1.
        label: Name of its class, or None where the format leaves it out.
    """

    place: str
    files: tuple[str, ...]
    box_xyxy: tuple[float, float, float, float]
    label: str | None


def make_corners(place, x1, y1, x2, y2):
    """Return four finite floats; a `DataError` says what was found instead."""
    try:
        corners = tuple(float(value) for value in (x1, y1, x2, y2))
    except (TypeError, ValueError):
        raise DataError(f"{place}: expected four numbers, found {(x1, y1, x2, y2)!r}.") from None
    if not all(map(math.isfinite, corners)):
        raise DataError(f"{place}: the box {corners} is not finite.")
    return corners


def make_box(place, x1, y1, x2, y2):
    """Return the corners of a box as floats; a `DataError` says what is wrong with them."""
    x1, y1, x2, y2 = make_corners(place, x1, y1, x2, y2)
    if x2 <= x1 or y2 <= y1:
        raise DataError(
            f"{place}: the box has no area: x from {x1:g} to {x2:g}, y from {y1:g} to {y2:g}."
        )
    return x1, y1, x2, y2
