import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tools.__main__ import NAMES

ROOT = Path(__file__).parent.parent


def copy_tracked_files(folder):
    """Copy the checkout as git has it.

    Setuptools builds in the folder it is given and packs what earlier builds have left there.
    """
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, os.fsdecode(listing.stdout).split("\0")):
        if (ROOT / name).exists():  # or else it was deleted and that is not committed yet
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def make_environment(folder):
    """Make an environment that has what this one has, but for gc_net, and return its `bin`."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    # An editable gc_net is found by a .pth file, and those of a folder added here are not read.
    others = [path for path in sys.path if "-packages" in path]
    (packages / "others.pth").write_text("\n".join(others))
    return folder / "bin"


def run(command, folder):
    """Run a command with no trace of the checkout, and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packaging") / "source"
    copy_tracked_files(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("editable", [False, True], ids=["wheel", "editable"])
def test_the_installed_command_and_package_work_in_any_folder(editable, source, tmp_path):
    binaries = make_environment(tmp_path / "environment")
    pip = [sys.executable, "-m", "pip", "--python", binaries / "python", "install", "--quiet"]
    run([*pip, "--no-deps", *(["--editable"] if editable else []), source], tmp_path)
    listing = run([binaries / "gc-net"], tmp_path)
    assert all(f"\n  {name} " in listing for name in NAMES)
    assert "--data_dir" in run([binaries / "gc-net", "train", "--help"], tmp_path)
    run([binaries / "gc-net", "contact_sheet", "--output=sheet.png", "--count=2"], tmp_path)
    assert (tmp_path / "sheet.png").exists()
    code = (
        "import importlib.util, gc_net; from gc_net.generators.learned import LearnedGenerator;"
        f"place = {str(source if editable else tmp_path)!r};"
        "assert gc_net.__file__.startswith(place), gc_net.__file__;"
        "assert not any(map(importlib.util.find_spec, ['tools', 'benchmarks', 'tests']));"
        "gc_net.Classifier('efficientnet_lite0', num_classes=1000, image_size=64);"
        "LearnedGenerator('rotated_ellipse', network='implicit')"
    )
    run([binaries / "python", "-c", code], tmp_path)


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_the_tools_and_nothing_else(source, tmp_path):
    run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", source], tmp_path)
    (wheel,) = tmp_path.glob("gc_net-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(
        ["git", "ls-files", "gc_net", "tools"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout.split()
    assert packed == {
        f"gc_net/cli{name.removeprefix('tools')}" if name.startswith("tools/") else name
        for name in tracked
        if (ROOT / name).exists()
    }
    assert {"gc_net/py.typed", "gc_net/serving/demo.html", "gc_net/report/report.html"} <= packed


@pytest.mark.parametrize("tool", sorted(path.stem for path in ROOT.glob("tools/[a-z]*.py")))
def test_importing_a_tool_imports_nothing_slow(tool):
    slow = {"tensorflow", "keras", "matplotlib", "jinja2", "PIL"}
    code = f"import sys, tools.{tool}; assert not {slow} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
