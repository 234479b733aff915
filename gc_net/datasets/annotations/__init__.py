"""Boxes for evaluation from the files that annotation tools write.

A reader is a function of a path to a list of `Record`s. To add a format, add a file here and a line
below.
"""

import os
from typing import TYPE_CHECKING

from gc_net.data.splits import DataError
from gc_net.registry import Registry

if TYPE_CHECKING:
    from gc_net.datasets.annotations.annotation import Record

FORMATS = Registry(
    "annotation format",
    {
        "coco": "gc_net.datasets.annotations.coco:read",
        "voc": "gc_net.datasets.annotations.voc:read",
        "csv": "gc_net.datasets.annotations.table:read",
        "label_studio": "gc_net.datasets.annotations.label_studio:read",
    },
)

_FORMAT_OF_SUFFIX = {".json": "coco", ".xml": "voc", ".csv": "csv"}


def format_of(path: str | os.PathLike) -> str:
    """Return the name of the format of `path`: VOC for a folder, by suffix for a file."""
    if os.path.isdir(path):
        return "voc"
    if not os.path.exists(path):
        raise DataError(f"The box file {path} does not exist.")
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _FORMAT_OF_SUFFIX:
        raise DataError(
            f"The box file {path} ends in {suffix!r}. Expected a COCO .json, a .csv, or a folder "
            "of Pascal VOC .xml files."
        )
    if suffix == ".json" and _is_list(path):
        return "label_studio"
    return _FORMAT_OF_SUFFIX[suffix]


def _is_list(path):
    """Return whether a JSON file is a list of tasks (Label Studio) and no object (COCO)."""
    try:
        with open(path, "rb") as file:
            return file.read(100).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
    except OSError:
        return False  # the reader says why


def read_boxes(path: str | os.PathLike) -> "list[Record]":
    """Return the `Record`s in a COCO or Label Studio JSON, a CSV, or a folder of VOC XMLs."""
    return FORMATS.get(format_of(path))(path)
