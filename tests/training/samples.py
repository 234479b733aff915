"""Runs small enough to be made over and over: drawn images of 32 pixels, the tiny backbone."""

import os
import shutil
import subprocess
import sys

import numpy as np

from gc_net.stages.classifier import ClassifierConfig
from gc_net.stages.config import DataConfig, NetworkConfig, RunOptions, TrainConfig
from gc_net.stages.detector import DetectorConfig
from gc_net.stages.generator import GeneratorConfig

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FLAGS = (
    "--dataset=creatures",
    "--dataset_options=num_train=26,num_test=6,image_size=40,num_classes=3",
    "--image_size=32",
    "--backbone=tiny",
    "--weights=none",
)


def small_config(seed=3, classifier=None, detector=None, generator=None, **options):
    """Return a `TrainConfig` of two stages of two epochs, with the given settings changed."""
    return TrainConfig(
        data=DataConfig(
            dataset="creatures",
            dataset_options="num_train=26,num_test=6,image_size=40,num_classes=3",
            image_size=32,
        ),
        network=NetworkConfig(backbone="tiny", weights="none"),
        classifier=ClassifierConfig(**{"epochs": 2, "batch_size": 6, **(classifier or {})}),
        generator=GeneratorConfig(**{"steps": 4, "batch_size": 4, **(generator or {})}),
        detector=DetectorConfig(**{"epochs": 2, "batch_size": 6, **(detector or {})}),
        seed=seed,
        **options,
    )


def small_options(work_dir, **options):
    settings = {"verbose": 0, "tensorboard": False, "checkpoint_steps": 2, "devices": "one"}
    return RunOptions(work_dir=str(work_dir), **{**settings, **options})


def stopped_before(finished, work_dir, *stages):
    """Copy a finished run as it was before `stages` and the model, and return its new folder."""
    shutil.copytree(finished, work_dir)
    for name in (*stages, "model"):
        shutil.rmtree(work_dir / name)
    return work_dir


def run_tool(name, *arguments, timeout=300, environment=None):
    """Run `python -m tools.<name>` and return the finished process, with its output as text."""
    return subprocess.run(
        [sys.executable, "-m", f"tools.{name}", *arguments],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def read_weights(model_dir):
    """Return the arrays of a saved model by name."""
    with np.load(os.path.join(str(model_dir), "weights.npz")) as file:
        return {name: file[name] for name in file.files}


def assert_same_weights(model_dir_a, model_dir_b):
    """Assert that two saved models are equal bit for bit."""
    a, b = read_weights(model_dir_a), read_weights(model_dir_b)
    assert a.keys() == b.keys()
    different = [name for name in a if a[name].tobytes() != b[name].tobytes()]
    assert not different
