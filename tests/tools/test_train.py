"""The training tools as a user calls them."""

import dataclasses
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from gc_net.evaluation import evaluate
from gc_net.stages.runner import Runner
from gc_net.training.callbacks import read_log
from tests.training.samples import FLAGS, ROOT, read_weights, run_tool, small_config, small_options
from tools import config_flags

TOOLS = ("train", "train_generator", "sweep")


@pytest.mark.parametrize("tool", TOOLS)
def test_help_comes_at_once_and_names_the_settings(tool):
    start = time.monotonic()
    process = run_tool(tool, "--help")
    took = time.monotonic() - start
    assert "--loss_weights" in process.stdout and "--second_classifier_epochs" in process.stdout
    assert "gc-net " in process.stdout
    # Far from a second on a free machine; TensorFlow alone would take several.
    assert took < 4


def test_a_wrong_setting_is_refused_in_one_line_before_tensorflow_is_there():
    process = run_tool("train", *FLAGS, "--classifier_num_folds=1")
    assert process.returncode != 0
    assert "`num_folds` must be 0, or at least 2" in process.stderr + process.stdout
    assert "Traceback" not in process.stderr


@pytest.mark.parametrize(
    "flag, message",
    [
        ("--dataset_options=oops", "name=value pairs"),
        ("--resize_size=16", "at least `image_size`"),
    ],
)
def test_settings_that_make_no_sense_are_refused_without_a_traceback(flag, message):
    process = run_tool("train", *FLAGS, flag)
    assert process.returncode != 0
    assert message in process.stderr + process.stdout
    assert "Traceback" not in process.stderr


@pytest.mark.parametrize(
    "section, changes, message",
    [
        ("data", {"dataset": "folder", "dataset_options": "test_fraction=2"}, "test_fraction must"),
        ("data", {"dataset": "folder", "data_dir": "missing"}, "does not exist"),
        ("network", {"weights": "missing.npz"}, "no weights file"),
    ],
)
def test_a_mistake_that_only_the_run_finds_ends_in_one_line(
    section, changes, message, tmp_path, monkeypatch, capsys
):
    config = small_config()
    if changes.get("dataset") == "folder":
        changes = {"dataset_options": "", "data_dir": str(tmp_path), **changes}
    part = dataclasses.replace(getattr(config, section), **changes)
    config = dataclasses.replace(config, **{section: part})
    options = small_options(tmp_path / "run")
    monkeypatch.setattr(config_flags, "read_continued", lambda: (config, options))
    with pytest.raises(SystemExit) as stopped:
        config_flags.run_stages()
    assert stopped.value.code == 2
    assert re.search(f"^Error: .*{message}", capsys.readouterr().err)


@pytest.mark.parametrize(
    "cache_dir, expected", [("auto", None), ("none", None), ("decoded", "decoded")]
)
def test_test_images_are_cached_only_where_a_folder_is_named(
    cache_dir, expected, tmp_path, monkeypatch
):
    used = []
    read = (small_config(), small_options(tmp_path / "run", cache_dir=cache_dir))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config_flags, "read_continued", lambda: read)
    monkeypatch.setattr(Runner, "train", lambda runner, stages: runner.model_dir)
    monkeypatch.setattr(Runner, "has_model", lambda runner, stages: True)
    monkeypatch.setattr(
        evaluate, "evaluate_run", lambda model_dir, dataset, cache: used.append(cache)
    )
    config_flags.run_stages(evaluate=True)
    assert used == [expected]


def test_an_interrupted_run_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupt(runner, stages):
        raise KeyboardInterrupt

    read = (small_config(), small_options(tmp_path))
    monkeypatch.setattr(config_flags, "read_continued", lambda: read)
    monkeypatch.setattr(Runner, "train", interrupt)
    with pytest.raises(SystemExit) as caught:
        config_flags.run_stages()
    assert caught.value.code == 130
    assert "The same command resumes" in capsys.readouterr().err


PATHS = """
import importlib, os, pkgutil, sys
from absl import flags
import tools
own = set(flags.FLAGS)
paths = {"archive", "boxes", "cache_dir", "calibration_images", "classifiers",
         "data_dir", "images", "json", "model", "output", "plot", "run", "source", "warmup_teacher",
         "weights", "work_dir"}
for module in pkgutil.iter_modules(tools.__path__):
    importlib.import_module("tools." + module.name)
    for name in set(flags.FLAGS) - own:
        flag = flags.FLAGS[name]
        # Those of several values are folders with names before them, which the library takes apart.
        if name in paths and not flag.flag_type().startswith("multi"):
            flag.parse("~/x")
            print(module.name, name, flag.value)
        delattr(flags.FLAGS, name)
"""


def test_every_flag_that_names_a_path_takes_the_home_folder(tmp_path):
    process = subprocess.run(
        [sys.executable, "-c", PATHS],
        cwd=ROOT,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    found = [line.split() for line in process.stdout.splitlines()]
    assert len(found) > 40
    assert {value for _, _, value in found} == {str(tmp_path / "x")}


@pytest.mark.slow
def test_the_stages_can_be_run_one_by_one(tmp_path):
    run = (*FLAGS, f"--work_dir={tmp_path}", "--classifier_epochs=1", "--classifier_batch_size=6")
    run += ("--detector_epochs=1", "--detector_batch_size=6", "--noevaluate")
    process = run_tool("train", *run, "--stage=classifier")
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "classifier" / "model" / "model.json").exists()
    assert not (tmp_path / "model").exists()
    process = run_tool("train", *run, "--stage=detector")
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "model" / "model.json").exists()
    assert len(read_log(tmp_path / "detector" / "log.csv")) == 1
    process = run_tool("train", *run, "--stage=classifier", "--classifier_epochs=2")
    assert process.returncode == 2
    assert "classifier.epochs: 1 there, 2 now" in process.stderr
    assert "Traceback" not in process.stderr


@pytest.mark.slow
def test_a_generator_is_trained_measured_and_written(tmp_path):
    process = run_tool(
        "train_generator",
        "--detector_shape=rectangle",
        "--generator_steps=6",
        "--generator_batch_size=8",
        f"--work_dir={tmp_path}",
    )
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "generator" / "rectangle_implicit.npz").exists()
    assert '"mean_iou"' in (tmp_path / "generator" / "rectangle_implicit.json").read_text()
    assert "crossing" in process.stdout


@pytest.mark.slow
def test_the_same_seed_gives_the_same_weights_and_another_does_not(tmp_path):
    weights = []
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        process = run_tool(
            "train",
            *FLAGS,
            "--classifier_epochs=1",
            "--classifier_batch_size=6",
            "--detector_epochs=1",
            "--detector_batch_size=6",
            "--noevaluate",
            "--deterministic",
            f"--seed={seed}",
            f"--work_dir={tmp_path / name}",
        )
        assert process.returncode == 0, process.stderr
        weights.append(read_weights(tmp_path / name / "model"))
    same, again, other = weights
    assert all(same[name].tobytes() == again[name].tobytes() for name in same)
    assert any(not np.array_equal(same[name], other[name]) for name in same)


@pytest.mark.slow
def test_mixed_precision_trains_and_keeps_float32_weights(tmp_path):
    process = run_tool(
        "train",
        *FLAGS,
        "--classifier_epochs=1",
        "--classifier_batch_size=6",
        "--detector_epochs=1",
        "--detector_batch_size=6",
        "--noevaluate",
        "--mixed_precision",
        f"--work_dir={tmp_path}",
    )
    assert process.returncode == 0, process.stderr
    assert {array.dtype for array in read_weights(tmp_path / "model").values()} == {
        np.dtype(np.float32)
    }
    assert np.isfinite(read_log(tmp_path / "detector" / "log.csv")[0]["loss"])
