"""CSV with the header `path,xmin,ymin,xmax,ymax` and, optionally, `label`.

Corners are edges in pixels counted from 0: the box of a whole image is 0, 0, width, height. Columns
    may have any order, with other columns among them. `filename` and `class`, the names in some
    tools, work too. A `'` before a path or label that starts with =, +, - or @ keeps spreadsheets
    from computing it. It is not a part of the path or label.
"""

import csv
import os

from gc_net.data.cells import restored
from gc_net.data.splits import DataError
from gc_net.datasets.annotations.annotation import Record, make_box

_ALIASES = {"filename": "path", "file": "path", "image": "path", "class": "label"}
_REQUIRED = ("path", "xmin", "ymin", "xmax", "ymax")


def read(path: str | os.PathLike) -> list[Record]:
    """Return the `Record`s of a CSV file."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return _read_rows(path, csv.reader(file, strict=True))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a CSV file in UTF-8: {error}.") from error


def _read_rows(path, reader):
    header = [name.strip().lower() for name in next(reader, [])]
    header = [_ALIASES.get(name, name) for name in header]
    missing = [name for name in _REQUIRED if name not in header]
    if missing:
        raise DataError(
            f"{path}, line 1: the header lacks {', '.join(missing)}; found {','.join(header)!r}. "
            "Expected path,xmin,ymin,xmax,ymax and, if wanted, label."
        )
    records = []
    for row in reader:
        if not any(row):
            continue
        place = f"{path}, line {reader.line_num}"
        if len(row) != len(header):
            raise DataError(f"{place}: expected {len(header)} fields, found {len(row)}.")
        fields = {name: value.strip() for name, value in zip(header, row, strict=True)}
        box_xyxy = make_box(place, *(fields[name] for name in _REQUIRED[1:]))
        label = restored(fields.get("label") or "") or None
        records.append(Record(place, (restored(fields["path"]),), box_xyxy, label))
    return records
