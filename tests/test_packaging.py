import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_wheel_works_in_any_folder_with_its_shipped_weights(tmp_path):
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", tmp_path, ROOT], check=True)
    (wheel,) = tmp_path.glob("gc_net-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
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
def test_importing_a_tool_imports_no_tensorflow(tool):
    code = f"import sys, tools.{tool}; assert not {{'tensorflow', 'keras'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
