"""Checkouts are measured beside each other, each with its own package."""

from pathlib import Path

from benchmarks import revisions
from benchmarks.revision_process import WAYS

ROOT = Path(__file__).parent.parent.parent


def test_every_way_has_a_row_for_each_checkout(tmp_path):
    other = tmp_path / "other"
    other.symlink_to(ROOT)
    _, text = revisions.report(
        folders=[str(ROOT), str(other)],
        backbone="tiny",
        train_from="conv2",
        image_sizes=[32],
        num_images=2,
        rounds=1,
    )
    rows = [line.strip("| ").split(" | ") for line in text.splitlines()[2:]]
    asked = [way for way in WAYS if not WAYS[way].evaluates]
    assert [tuple(row[1:3]) for row in rows] == [
        (way, name) for way in asked for name in (ROOT.name, "other")
    ]
    assert all(row[5] == row[6] == "1.00×" for row in rows[::2])
    assert all(float(row[3]) > 0 and float(row[4]) > 0 for row in rows)
