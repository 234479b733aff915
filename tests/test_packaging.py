import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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


@pytest.mark.slow
def test_wheel_works_in_any_folder_with_its_shipped_weights(tmp_path):
    source = tmp_path / "source"
    copy_tracked_files(source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", tmp_path, source], check=True)
    (wheel,) = tmp_path.glob("gc_net-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        archive.extractall(tmp_path / "installed")
    tracked = (path for folder in ("gc_net", "tools") for path in (source / folder).rglob("*"))
    assert packed == {str(path.relative_to(source)) for path in tracked if path.is_file()}
    assert {"gc_net/serving/demo.html", "gc_net/report/template.html"} <= packed
    code = (
        "import gc_net; from gc_net.generators.learned import LearnedGenerator;"
        f"assert gc_net.__file__.startswith({str(tmp_path)!r}), gc_net.__file__;"
        "gc_net.Classifier('efficientnet_lite0', num_classes=1000, image_size=64);"
        "LearnedGenerator('rotated_ellipse', network='implicit')"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    # Before site-packages, where the checkout may be installed.
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    subprocess.run([sys.executable, "-c", code], cwd=elsewhere, env=environment, check=True)
    help_text = subprocess.run(
        [sys.executable, "-m", "tools.train", "--help"],
        cwd=elsewhere,
        env=environment,
        capture_output=True,
        text=True,
    ).stdout
    assert "--data_dir" in help_text


@pytest.mark.parametrize("tool", sorted(path.stem for path in ROOT.glob("tools/[a-z]*.py")))
def test_importing_a_tool_imports_nothing_slow(tool):
    slow = {"tensorflow", "keras", "matplotlib", "jinja2", "PIL"}
    code = f"import sys, tools.{tool}; assert not {slow} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
