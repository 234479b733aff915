"""A row per epoch in a CSV file that survives kills and resumption."""

import csv
import io
import os

import keras

from gc_net.atomic_files import replaced_file


class CsvLog(keras.callbacks.Callback):
    """Write each epoch's logs as a row of a CSV file.

    After a resume, `keras.callbacks.CSVLogger` with `append` repeats epochs that are trained again,
    and continues after half a line. This callback drops the rows of later epochs and all broken
    lines. It replaces the whole file after each epoch, so the file is always complete; a log is
    small. Columns are those of all rows, in the order in which they appeared.

    Args:
        path: File to write; its folder must exist. Epochs count from 0, as in Keras.

    Example:
        model.fit(batches, epochs=10, initial_epoch=4, callbacks=[CsvLog("run/log.csv")])
    """

    def __init__(self, path: str | os.PathLike):
        super().__init__()
        self.path = os.fspath(path)
        self._rows = None

    def on_train_begin(self, logs=None):
        self._rows = None

    def on_epoch_begin(self, epoch, logs=None):
        # Only here is the epoch known at which training resumes.
        if self._rows is None:
            self._rows = [row for row in read_log(self.path) if row["epoch"] < epoch]

    def on_epoch_end(self, epoch, logs=None):
        self._rows.append({"epoch": epoch, **(logs or {})})
        _write(self.path, self._rows)


def read_log(path: str | os.PathLike) -> list[dict[str, float]]:
    """Read a CSV log: a list of dicts of numbers, without cells that are empty.

    Broken lines, which another writer may leave when it is killed, are left out. If an epoch occurs
    more than once, the last one counts. A missing file is an empty log.
    """
    try:
        with open(path, newline="", encoding="utf-8") as file:
            # A last line without its end may have lost digits without any other sign.
            lines = [line for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []
    cells = list(csv.reader(lines))
    names = cells[0] if cells else []
    rows = {}
    for values in cells[1:]:
        if len(values) != len(names):
            continue
        row = {name: value for name, value in zip(names, values, strict=True) if value != ""}
        try:
            row = {name: float(value) for name, value in row.items()}
            row["epoch"] = int(row["epoch"])
        except (ValueError, KeyError):
            continue
        rows.pop(row["epoch"], None)
        rows[row["epoch"]] = row
    return list(rows.values())


def _write(path, rows):
    text = io.StringIO()
    names = dict.fromkeys(name for row in rows for name in row)  # an ordered set
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        # Nine digits are enough to tell any two float32 apart.
        writer.writerow({name: f"{value:.9g}" for name, value in row.items()})
    with replaced_file(path) as file:
        file.write(text.getvalue())
