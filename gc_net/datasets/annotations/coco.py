"""COCO JSON: `images`, `annotations` with `bbox` = [x, y, width, height], `categories`.

Crowd annotations (`iscrowd` = 1) outline many objects at once and are left out.
"""

import json

from gc_net.datasets.annotations.record import Record, make_box
from gc_net.datasets.base import DataError


def read(path):
    """Return the `Record`s of a COCO file."""
    content = _load(path)
    files = _by_id(path, content, "images", "file_name")
    names = _by_id(path, content, "categories", "name") if "categories" in content else None
    records = []
    for number, annotation in _entries(path, content, "annotations"):
        place = f"{path}, annotations[{number}]"
        if annotation.get("iscrowd"):
            continue
        image_id = annotation.get("image_id")
        # A list or an object, which a damaged file may have here, is no key.
        if not isinstance(image_id, (int, str)) or image_id not in files:
            raise DataError(f"{place}: the image_id {image_id!r} is not among the images.")
        category = annotation.get("category_id")
        if names is not None and category not in names:
            raise DataError(f"{place}: the category_id {category!r} is not among the categories.")
        box = annotation.get("bbox")
        if not isinstance(box, list) or len(box) != 4:
            raise DataError(f"{place}: expected bbox = [x, y, width, height], found {box!r}.")
        try:
            x, y, width, height = map(float, box)
        except (TypeError, ValueError):
            raise DataError(f"{place}: expected four numbers, found {box!r}.") from None
        label = None if names is None else names[category]
        box_xyxy = make_box(place, x, y, x + width, y + height)
        records.append(Record(place, (files[image_id],), box_xyxy, label))
    return records


def _load(path):
    try:
        with open(path, encoding="utf-8-sig") as file:
            content = json.load(file)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}.") from error
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


def _entries(path, content, key):
    entries = content.get(key)
    if not isinstance(entries, list):
        raise DataError(f"{path}: expected a list called {key!r}; found {sorted(content)}.")
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise DataError(f"{path}, {key}[{number}]: expected an object, found {entry!r:.100}.")
        yield number, entry
