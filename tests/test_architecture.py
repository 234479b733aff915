"""The plan of the package: who imports whom, as README.md and docs/architecture.md say."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")

# Against the order, each with a reason in docs/architecture.md.
EXCEPTIONS = {
    ("evaluation", "report"),
    ("methods", "evaluation"),
    ("prediction", "figures"),
    ("teachers", "stages"),
    ("training", "figures"),
}


def room_of(module):
    return module.split(".")[1] if "." in module else ""


def rows():
    """Return the rooms of each row of the README's table."""
    table = README.partition("| room |")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    found = [re.findall(r"`gc_net\.(\w+)`", cell) for cell in cells]
    return [rooms for rooms in found if rooms]


def imported(tree):
    """Yield the modules of the package that a module imports as soon as it is imported itself."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gc_net":
            names = [alias.name for alias in node.names]
            yield from (f"{node.module}.{name}" for name in names)
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            yield from (name for name in names if name.startswith("gc_net."))
        else:
            yield from imported(node)


@pytest.fixture(scope="module")
def modules():
    """The modules of the package: name, to its source."""
    paths = sorted((ROOT / "gc_net").rglob("*.py"))
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    names = [name.removesuffix(".__init__") for name in names]
    return {name: path.read_text("utf-8") for name, path in zip(names, paths, strict=True)}


def test_rooms_import_only_what_stands_before_them(modules):
    pairs = {
        (room_of(name), room_of(other))
        for name, source in modules.items()
        for other in imported(ast.parse(source))
    }
    place = {room: number for number, rooms in enumerate(rows()) for room in rooms}
    against = {
        (room, other)
        for room, other in pairs
        if room and other in place and place[other] > place.get(room, -1)
    }
    assert against <= EXCEPTIONS


def test_every_folder_is_a_room_of_the_table():
    folders = {path.parent.name for path in (ROOT / "gc_net").glob("*/__init__.py")}
    assert folders <= {room for rooms in rows() for room in rooms}


def test_tests_stand_in_folders_of_what_they_test():
    def folders(root):
        return {path.parent.name for path in (ROOT / root).glob("*/__init__.py")}

    beside = {"benchmarks", "examples", "tools"}
    assert folders("tests") - beside - {"faults"} == folders("gc_net")
    assert all((ROOT / name).is_dir() for name in beside)


def test_exceptions_and_rooms_are_explained():
    for room, other in EXCEPTIONS:
        assert f"`{room}` → `{other}`" in ARCHITECTURE
    for room in (room for rooms in rows() for room in rooms):
        assert re.search(rf"^\| `{room}` \|", ARCHITECTURE, re.M), room


def test_functions_of_the_two_walks_exist(modules):
    walks = ARCHITECTURE.partition("## Two walks")[2].partition("\n## ")[0]
    named = re.findall(r"`(gc_net[\w.]*):([\w.]+)`", walks)
    assert len(named) > 20
    for module, function in named:
        tree = ast.parse(modules[module])
        for part in function.split("."):
            kinds = ast.FunctionDef | ast.ClassDef
            found = [n for n in tree.body if isinstance(n, kinds) and n.name == part]
            assert found, f"{module}:{function}"
            tree = found[0]


@pytest.mark.parametrize("name", ["runner", "stage_run", "dependencies", "networks"])
def test_what_runs_stages_names_none_of_them(modules, name):
    from gc_net.stages import STAGES

    source = modules[f"gc_net.stages.{name}"]
    named = [other for other in STAGES if re.search(rf"gc_net\.stages\.{other}\b", source)]
    assert named == []
