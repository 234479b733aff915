"""Logs and previews of files with odd names, and logs that were damaged."""

import csv
import os

import pytest

from gc_net.datasets.annotations import table as reader
from gc_net.prediction.log import LOG_FILE, PredictionLog
from gc_net.prediction.predict_files import Summary
from gc_net.prediction.previews import write_previews
from tests.data import encoded
from tests.prediction.test_formats import RESULTS, write

PREDICTION = RESULTS["third.jpg"]


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b"{}", b'{"file": 3}', b'{"file": "b.jpg"}', b"\xff"]
)
def test_a_damaged_line_is_named_with_its_file_its_number_and_a_remedy(line, tmp_path):
    with PredictionLog(tmp_path, {}) as log:
        for name in "abc":
            log.append(f"{name}.jpg", PREDICTION)
        path = tmp_path / LOG_FILE
        lines = path.read_bytes().splitlines()
        path.write_bytes(b"\n".join([*lines[:2], line, *lines[3:]]) + b"\n")
        with pytest.raises(
            ValueError, match=r"predictions\.jsonl, line 3: damaged.*Delete that line"
        ):
            dict(log)


@pytest.mark.parametrize("letter", ["a", "ä", "日"])
def test_a_name_as_long_as_may_be_has_a_preview_too(letter, tmp_path):
    size = len(letter.encode())
    names = [letter * (251 // size) + ".png", "short.png"]
    names.append(letter * (251 // size - 1) + "b" * size + ".png")
    for name in names:
        (tmp_path / name).write_bytes(encoded.encode(".png", encoded.picture()))
    write_previews(tmp_path / "out", str(tmp_path), [(name, PREDICTION) for name in names])
    written = os.listdir(tmp_path / "out" / "previews")
    assert len(written) == 3 and "short.png.jpg" in written


def test_names_with_line_ends_are_escaped_in_the_summary():
    summary = Summary(1, 0, 0, 0, (("a\nb\x1b.jpg", "damaged"),), "out")
    assert summary.text().splitlines()[-1] == r"  a\nb\x1b.jpg: damaged"


def test_a_table_holds_no_formulas_and_reads_back_what_they_were(tmp_path):
    names = ["=1+1.jpg", "+a.jpg", "-a.jpg", "@a.jpg", "'=a.jpg", "a.jpg"]
    path = write("csv", tmp_path, dict.fromkeys(names, PREDICTION))
    with open(path, newline="") as file:
        rows = list(csv.reader(file))[1:]
    assert not any(row[0].startswith(tuple("=+-@")) for row in rows)
    assert [record.files for record in reader.read(path)] == [(name,) for name in names]
