"""Label Studio's JSON export: tasks with the `annotations` of people.

Rectangles and ellipses are read; rotated ones become the upright box around them. Cancelled
annotations, and `predictions`, which nobody has checked, are left out.
"""

import math
import os
import re
import urllib.parse

from gc_net.data.splits import DataError
from gc_net.datasets.annotations.annotation import Record, load_json, make_box

_SHAPES = ("rectanglelabels", "ellipselabels")
# Label Studio puts eight hexadecimal digits before the name of an uploaded file.
_UPLOADED = re.compile(r"(.*/)?[0-9a-f]{8}-([^/]+)")


def read(path: str | os.PathLike) -> list[Record]:
    """Return the `Record`s of an export."""
    records = []
    for number, task in enumerate(_load(path)):
        place = f"{path}, task {number + 1}"
        if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
            raise DataError(f"{place}: expected a task with data, found {task!r:.200}.")
        annotations = task.get("annotations")
        if not isinstance(annotations, list):
            raise DataError(
                f"{place}: expected a list of annotations, found {annotations!r:.200}. Export the "
                "project as JSON, not as JSON-MIN."
            )
        for annotation in annotations:
            if not isinstance(annotation, dict):
                raise DataError(f"{place}: expected an annotation, found {annotation!r:.200}.")
            if not annotation.get("was_cancelled"):
                records += _regions(place, task["data"], annotation.get("result"))
    return records


def _load(path):
    content = load_json(path)
    if not isinstance(content, list):
        found = type(content).__name__
        raise DataError(f"{path}: expected a list of Label Studio's tasks, found a JSON {found}.")
    if not content:
        raise DataError(f"{path}: expected a COCO object or Label Studio's tasks, found no task.")
    return content


def _regions(place, data, results):
    if not isinstance(results, list):
        raise DataError(f"{place}: expected a list of results, found {results!r:.200}.")
    files = None
    for number, result in enumerate(results):
        if not isinstance(result, dict) or result.get("type") not in _SHAPES:
            continue  # a choice, a comment, a relation
        where = f"{place}, result {number + 1}"
        if files is None:
            files = _files(place, data)
        value, kind = result.get("value"), result["type"]
        size = result.get("original_width"), result.get("original_height")
        labels = value.get(kind) if isinstance(value, dict) else None
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise DataError(f"{where}: expected a value with {kind}, found {value!r:.200}.")
        label = labels[0] if labels else None
        try:
            corners = _corners(kind, value, *map(float, size))
        except (KeyError, TypeError, ValueError, OverflowError):
            raise DataError(
                f"{where}: expected numbers in percent and the size of the image, found "
                f"{result!r:.300}."
            ) from None
        yield Record(where, files, make_box(where, *corners), label)


def _corners(kind, value, width, height):
    """Return the upright box around a region, in pixels."""
    angle = math.radians(float(value.get("rotation") or 0))
    cosine, sine = math.cos(angle), math.sin(angle)
    x, y = float(value["x"]) * width / 100, float(value["y"]) * height / 100
    if kind == "ellipselabels":
        across, down = float(value["radiusX"]) * width / 100, float(value["radiusY"]) * height / 100
        reach_x, reach_y = (
            math.hypot(across * cosine, down * sine),
            math.hypot(across * sine, down * cosine),
        )
        return x - reach_x, y - reach_y, x + reach_x, y + reach_y
    # It turns about its first corner.
    across, down = float(value["width"]) * width / 100, float(value["height"]) * height / 100
    xs = [x, x + across * cosine, x - down * sine, x + across * cosine - down * sine]
    ys = [y, y + across * sine, y + down * cosine, y + across * sine + down * cosine]
    return min(xs), min(ys), max(xs), max(ys)


def _files(place, data):
    """Return the possible names of a task's image, from the address among its data."""
    addresses = [data[key] for key in ("image", *data) if isinstance(data.get(key), str)]
    if not addresses:
        raise DataError(f"{place}: no address of an image in its data, {data!r:.200}.")
    try:
        address = urllib.parse.urlsplit(addresses[0])
    except ValueError as error:
        raise DataError(f"{place}: {addresses[0]!r:.200} is no address: {error}.") from None
    # Files that Label Studio serves from a folder are named after ?d=.
    name = urllib.parse.parse_qs(address.query).get("d", [urllib.parse.unquote(address.path)])[0]
    name = name.lstrip("/") or addresses[0]
    uploaded = _UPLOADED.fullmatch(name)
    return (name, uploaded[2]) if uploaded else (name,)
