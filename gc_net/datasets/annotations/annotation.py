"""The results of annotation readers."""

import json
import os
from typing import Any, NamedTuple

import numpy as np

from gc_net.data.splits import DataError

# In pixels. Up to here, float32, the type of boxes, represents all whole numbers.
_LARGEST = 2**24


class Record(NamedTuple):
    """One box.

    Attributes:
        place: File and line, for error messages.
        files: Possible names of the image, the likeliest first.
        box_xyxy: Corners in pixels of the upright image; pixel i spans i to i + 1.
        label: Name of its class, or None if the format leaves it out.
    """

    place: str
    files: tuple[str, ...]
    box_xyxy: tuple[float, float, float, float]
    label: str | None


def load_json(path: str | os.PathLike) -> Any:
    """Return the content of a JSON file; a `DataError` says why it cannot be read."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return json.load(file)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}.") from error


def make_corners(
    place: str, x1: Any, y1: Any, x2: Any, y2: Any
) -> tuple[float, float, float, float]:
    """Return four finite floats; otherwise raise a `DataError`."""
    try:
        corners = tuple(float(value) for value in (x1, y1, x2, y2))
    except (TypeError, ValueError, OverflowError):
        found = f"{(x1, y1, x2, y2)!r:.200}"
        raise DataError(f"{place}: expected four numbers, found {found}.") from None
    if not all(abs(value) <= _LARGEST for value in corners):  # also if one is NaN
        raise DataError(f"{place}: the box {corners} is not finite, or larger than any image.")
    return corners


def has_area(x1: float, y1: float, x2: float, y2: float) -> bool:
    """Return whether a box has an area, in the precision of boxes."""
    return np.float32(x1) < np.float32(x2) and np.float32(y1) < np.float32(y2)


def make_box(place: str, x1: Any, y1: Any, x2: Any, y2: Any) -> tuple[float, float, float, float]:
    """Return the corners of a box as floats; raise a `DataError` if they are wrong."""
    x1, y1, x2, y2 = make_corners(place, x1, y1, x2, y2)
    if not has_area(x1, y1, x2, y2):
        raise DataError(
            f"{place}: the box has no area: x from {x1:g} to {x2:g}, y from {y1:g} to {y2:g}."
        )
    return x1, y1, x2, y2
