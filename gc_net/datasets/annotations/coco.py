"""COCO JSON: `images`, `annotations` with `bbox` = [x, y, width, height], `categories`.

Crowd annotations (`iscrowd` = 1) outline many objects at once and are left out.
"""

import os

from gc_net.data.splits import DataError
from gc_net.datasets.annotations.annotation import Record, load_json, make_box, make_corners


def read(path: str | os.PathLike) -> list[Record]:
    """Return the `Record`s of a COCO file."""
    content = _load(path)
    files = _by_id(path, content, "images", "file_name")
    names = _by_id(path, content, "categories", "name") if "categories" in content else None
    records = []
    for number, annotation in _entries(path, content, "annotations"):
        place = f"{path}, annotations[{number}]"
        if annotation.get("iscrowd"):
            continue
        file = _looked_up(place, annotation, "image_id", files, "images")
        label = None
        if names is not None:
            label = _looked_up(place, annotation, "category_id", names, "categories")
        box = annotation.get("bbox")
        if not isinstance(box, list) or len(box) != 4:
            raise DataError(f"{place}: expected bbox = [x, y, width, height], found {box!r:.200}.")
        x, y, width, height = make_corners(place, *box)
        box_xyxy = make_box(place, x, y, x + width, y + height)
        records.append(Record(place, (file,), box_xyxy, label))
    return records


def _load(path):
    content = load_json(path)
    if not isinstance(content, dict):
        raise DataError(f"{path}: expected a COCO object, found a JSON {type(content).__name__}.")
    return content


def _by_id(path, content, key, field):
    """Return {id: field} of the entries under `key`."""
    values = {}
    for number, entry in _entries(path, content, key):
        place = f"{path}, {key}[{number}]"
        identity, value = entry.get("id"), entry.get(field)
        if not isinstance(identity, int | str) or not isinstance(value, str):
            raise DataError(f"{place}: expected an id and a {field}, found {entry!r:.200}.")
        if identity in values:
            raise DataError(f"{place}: the id {identity!r} is there a second time.")
        values[identity] = value
    return values


def _looked_up(place, annotation, field, values, where):
    """Return the entry of `values` that a field of an annotation names."""
    identity = annotation.get(field)
    # A list or an object, which a damaged file may have here, is no key.
    if not isinstance(identity, int | str) or identity not in values:
        raise DataError(f"{place}: the {field} {identity!r:.200} is not among the {where}.")
    return values[identity]


def _entries(path, content, key):
    entries = content.get(key)
    if not isinstance(entries, list):
        raise DataError(f"{path}: expected a list called {key!r}; found {sorted(content)}.")
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise DataError(f"{path}, {key}[{number}]: expected an object, found {entry!r:.100}.")
        yield number, entry
