import re
from pathlib import Path

import pytest

from gc_net.datasets.folder import BOX_FILES, BOX_FOLDERS, Folder
from tools.__main__ import NAMES

README = Path(__file__).parent.parent / "README.md"
TEXTS = [README, *sorted((README.parent / "docs").glob("*.md"))]


@pytest.mark.slow
def test_python_quickstart_runs_as_printed(capsys):
    code = re.search(r"## In Python\n\n```python\n(.*?)```", README.read_text("utf-8"), re.S)[1]
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out.strip().splitlines()[-1]
    left, top, right, bottom = (float(number) for number in printed.strip("[]").split())
    assert left < right and top < bottom


def test_every_file_that_the_readme_names_exists():
    text = README.read_text("utf-8")
    names = re.findall(r"\]\(((?!http)[^)#]+)\)", text)
    names += re.findall(r"`((?:gc_net|docs|recipes|tools|deploy)/[\w./-]+)`", text)
    missing = [name for name in names if not (README.parent / name).exists()]
    assert names and not missing


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_every_command_that_is_written_exists(path):
    text = path.read_text("utf-8").replace("\\\n", " ")
    tools = set(re.findall(r"(?:gc-net|python -m tools\.) ?([a-z_]\w*)", text))
    assert tools <= {*NAMES}


def box_section():
    text = (README.parent / "docs" / "evaluation.md").read_text("utf-8")
    return re.search(r"## Box files\n(.*?)\n## ", text, re.S)[1]


def test_every_name_of_boxes_that_a_folder_finds_by_itself_is_documented():
    named = set(re.findall(r"`([\w./]+)`", box_section()))
    assert {*BOX_FILES, *(f"{name}/" for name in BOX_FOLDERS)} <= named


def test_the_box_file_that_is_printed_is_read(tmp_path):
    for name in ("cats/a.jpg", "dogs/b.jpg"):
        (tmp_path / "val" / name).parent.mkdir(parents=True)
        (tmp_path / "val" / name).touch()
        (tmp_path / "train" / name).parent.mkdir(parents=True)
        (tmp_path / "train" / f"{name[:-4]}_2.jpg").touch()
    (tmp_path / "boxes.csv").write_text(re.search(r"```\n(.*?)```", box_section(), re.S)[1])
    assert Folder(tmp_path).truth("test").boxes.tolist() == [[12, 30, 180, 220]]
