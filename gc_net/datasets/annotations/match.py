"""Finding the images of annotations.

No file that an annotation names is ever opened. Names are looked up among the images in the data
folder, so none can lead out of it.
"""

import posixpath
import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gc_net.data.names import some
from gc_net.data.splits import DataError

if TYPE_CHECKING:
    from gc_net.datasets.annotations.annotation import Record


def match_images(
    records: "Sequence[Record]", files: Sequence[str], root: str, others_allowed: bool = False
) -> np.ndarray:
    """Return the [M] index of each record's image.

    A name fits an image if it is the image's path below `root`, the end of that path (`"a.jpg"` for
    `"cats/a.jpg"`), or a longer path with that end (`"images/cats/a.jpg"`). A name without a suffix
    fits images with any suffix. A `DataError` lists names that fit no image, or several.

    Args:
        records: List of `Record`.
        files: Images' names relative to `root`, `/` between folders.
        root: The data folder; absolute names must lie below it.
        others_allowed: Whether images that are not among `files` get −1 instead.
    """
    names = _Names(files)
    indices, unknown = [], {}
    found = {}
    for record in records:
        if record.files not in found:
            found[record.files] = _first(names, record, root)
        index = found[record.files]
        if index is None and others_allowed:
            index = -1
        elif index is None:
            unknown.setdefault(record.files[-1], record.place)
        indices.append(index)
    if unknown:
        places = [f"{name!r} ({place})" for name, place in unknown.items()]
        raise DataError(
            f"{len(unknown):,} of {len(found):,} annotated images are not in {root}: "
            f"{some(places)}. Add these images or take them out of the annotations."
        )
    return np.array(indices, dtype=np.int64)


def match_labels(
    records: "Sequence[Record]", labels: Sequence[int], class_names: Sequence[str]
) -> None:
    """Raise a `DataError` unless each record's label, if it has one, is its image's class.

    Args:
        records: List of `Record`.
        labels: [M] label of each record's image; −1 for images in no split, which are not checked.
        class_names: Names in label order.
    """
    known = {_normal(name): label for label, name in enumerate(class_names)}
    for record, label in zip(records, labels, strict=True):
        if record.label is None or label < 0:
            continue
        where = f"{record.place}: the label {record.label!r} of {record.files[-1]!r}"
        if _normal(record.label) not in known:
            raise DataError(f"{where} is not a class. Known ones: {some(class_names, 10)}.")
        if known[_normal(record.label)] != label:
            raise DataError(
                f"{where} is not the class of its folder, {class_names[label]!r}. "
                "Correct the label, or move the image."
            )


def _first(names, record, root):
    for file in record.files:
        index = names.find(_relative(file, record.place, root), record.place)
        if index is not None:
            return index
    return None


def _normal(text):
    # An accented letter is one code point on some systems, two on others.
    return unicodedata.normalize("NFC", text)


def _relative(name, place, root):
    """Return `name` with `/` between folders, relative to `root`."""
    path = posixpath.normpath(name.replace("\\", "/"))
    prefix = root.replace("\\", "/").rstrip("/") + "/"
    if path.startswith(prefix):
        path = path[len(prefix) :]
    if path.startswith("/") or re.match("[A-Za-z]:", path) or path.split("/")[0] in ("..", "."):
        raise DataError(
            f"{place}: the image name {name!r} leads out of the data folder {root}. "
            "Expected a name relative to it."
        )
    return _normal(path)


class _Names:
    """Images by the last part of their name."""

    def __init__(self, files):
        self._files = [_normal(file) for file in files]
        self._by_name = {}
        self._by_stem = {}
        for index, file in enumerate(self._files):
            name = posixpath.basename(file)
            self._by_name.setdefault(name, []).append(index)
            self._by_stem.setdefault(posixpath.splitext(name)[0], []).append(index)

    def find(self, path, place):
        name = posixpath.basename(path)
        candidates = self._by_name.get(name)
        shorten = posixpath.normpath
        if candidates is None:
            candidates, shorten = self._by_stem.get(name, []), _without_suffix
        fitting = []
        for index in candidates:
            file = shorten(self._files[index])
            if file == path:
                return index
            if file.endswith("/" + path) or path.endswith("/" + file):
                fitting.append(index)
        if len(fitting) > 1:
            images = some(self._files[index] for index in fitting)
            raise DataError(
                f"{place}: {path!r} fits {len(fitting)} images: {images}. "
                "Write the folder into the name."
            )
        return fitting[0] if fitting else None


def _without_suffix(path):
    return posixpath.splitext(path)[0]
