"""Every promise of docs/robustness.md has a test that keeps it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "robustness.md").read_text("utf-8")


def test_the_tests_that_keep_promises_exist():
    table = TEXT.partition("| tried | promised | kept by |")[2].partition("\n\n")[0]
    rows = table.strip().splitlines()[1:]
    assert len(rows) > 25
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row.split("|")[3])
        assert named, row
        for path, name in named:
            assert f"def {name}(" in (ROOT / path).read_text("utf-8"), f"{path} lacks {name}"
