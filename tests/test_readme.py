import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


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


def test_every_tool_that_the_readme_runs_exists():
    tools = set(re.findall(r"python -m tools\.(\w+)", README.read_text("utf-8")))
    missing = [tool for tool in tools if not (README.parent / "tools" / f"{tool}.py").exists()]
    assert tools and not missing
