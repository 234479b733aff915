"""ILSVRC2012's lists: the names of the classes, and the class and boxes of each test image."""

import collections
import csv
import os
from collections.abc import Collection, Mapping
from typing import NamedTuple

from gc_net.data.names import some
from gc_net.data.splits import DataError
from gc_net.datasets.annotations.annotation import make_box
from gc_net.datasets.annotations.voc import read_file
from gc_net.datasets.image_files import read_lines

_HEADER = ["ImageId", "PredictionString"]


class Annotation(NamedTuple):
    """One test image's class and its boxes, at least one."""

    wnid: str
    boxes_xyxy: list[tuple[float, float, float, float]]


def read_synsets(path: str | os.PathLike) -> dict[str, str]:
    """Return {wnid: names} of `LOC_synset_mapping.txt`, in the order of the wnids."""
    synsets = {}
    for place, line in read_lines(path):
        wnid, _, names = line.partition(" ")
        if not names or wnid in synsets:
            raise DataError(f"{place}: expected a new <wnid> <names>, found {line!r}.")
        synsets[wnid] = names.strip()
    return dict(sorted(synsets.items()))


def short_names(synsets: Mapping[str, str]) -> list[str]:
    """Return the first name of each class, followed by the wnid if two classes share a name.

    Args:
        synsets: {wnid: names separated by commas}.
    """
    names = [text.partition(",")[0].strip() for text in synsets.values()]
    times = collections.Counter(names)
    return [
        name if times[name] == 1 else f"{name} ({wnid})"
        for name, wnid in zip(names, synsets, strict=True)
    ]


def read_solution(path: str | os.PathLike, wnids: Collection[str]) -> dict[str, Annotation]:
    """Return {image id: `Annotation`} of `LOC_val_solution.csv`.

    Args:
        path: CSV file whose second column is `<wnid> <xmin> <ymin> <xmax> <ymax>`, repeated.
        wnids: Known classes.
    """
    annotations = {}
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True)
            if next(rows, None) != _HEADER:
                raise DataError(f"{path}, line 1: expected {','.join(_HEADER)}.")
            for row in rows:
                place = f"{path}, line {rows.line_num}"
                words = row[1].split() if len(row) == 2 else []
                if len(words) % 5:
                    words = []
                objects = [
                    (place, words[start], words[start + 1 : start + 5])
                    for start in range(0, len(words), 5)
                ]
                annotations[row[0] if row else ""] = _annotation(place, objects, wnids)
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a CSV file in UTF-8: {error}.") from error
    return annotations


def read_xmls(folder: str | os.PathLike, wnids: Collection[str]) -> dict[str, Annotation]:
    """Return {image id: `Annotation`} of the XML files in `folder`."""
    annotations = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".xml"):
            path = os.path.join(folder, name)
            annotations[name.removesuffix(".xml")] = _annotation(path, read_file(path)[1], wnids)
    return annotations


def _annotation(place, objects, wnids):
    found = {wnid for _, wnid, _ in objects}
    if len(found) != 1 or not found.issubset(wnids):
        raise DataError(
            f"{place}: expected one or more boxes of one known class, "
            f"<wnid> <xmin> <ymin> <xmax> <ymax>; found {some(sorted(map(str, found))) or 'none'}."
        )
    return Annotation(found.pop(), [make_box(where, *corners) for where, _, corners in objects])
