"""Settings, and the flags that are made of them."""

import dataclasses
import glob
import math
import os
import subprocess
import sys

import pytest

from gc_net import teachers
from gc_net.settings import is_section, plain_type
from gc_net.stages.classifier import ClassifierConfig
from gc_net.stages.config import DataConfig, RunOptions, TrainConfig, with_flags
from gc_net.stages.detector import DetectorConfig
from gc_net.stages.run_folder import write_settings
from tests.processes import run_python
from tests.training.samples import ROOT, small_config

SECTIONS = [field.type for field in dataclasses.fields(TrainConfig) if is_section(field)]
ALL = [*SECTIONS, TrainConfig, RunOptions]
RECIPES = sorted(glob.glob(os.path.join(ROOT, "recipes", "*.flags")))


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_setting_is_described_and_nothing_else_is(kind):
    described = kind.descriptions()
    assert list(described) == [field.name for field in dataclasses.fields(kind)]
    assert all(text.endswith(".") for text in described.values())


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_settings_survive_the_way_through_a_dict(kind):
    assert kind.from_dict(kind().to_dict()) == kind()


def test_settings_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainConfig().seed = 1


def test_an_unknown_setting_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"no setting 'epoch'. Its settings: .*epochs"):
        DetectorConfig.from_dict({"epoch": 3})
    with pytest.raises(ValueError, match="no setting 'epoch'"):
        TrainConfig.from_dict({"detector": {"epoch": 3}})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DetectorConfig(shape="circle"), "must be one of rectangle"),
        (lambda: ClassifierConfig(epochs=0), "`epochs` must be at least 1"),
        (lambda: ClassifierConfig(mask_fraction=1.5), "at most 1.0. Received: mask_fraction=1.5"),
        (lambda: ClassifierConfig(num_folds=1), "`num_folds` must be 0, or at least 2"),
        (lambda: ClassifierConfig(mask_min_extent=0.9, mask_max_extent=0.5), "must not exceed"),
        (lambda: DataConfig(dataset_options="num_train"), "name=value pairs"),
        (lambda: DetectorConfig(loss_weights="area"), "`loss_weights` must be name=value pairs"),
        (lambda: DetectorConfig(loss_weights="area=x"), "a number, e.g. .* Received: area=x"),
        (lambda: DataConfig(image_size=64, resize_size=63), "at least `image_size`.* 63 and 64"),
    ],
)
def test_a_wrong_value_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def numbers():
    """Return every setting of a run that is a number with a fraction, as (its section, name)."""
    return [
        (kind, field.name)
        for kind in ALL
        for field in dataclasses.fields(kind)
        if plain_type(field) is float
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "kind, name", numbers(), ids=lambda value: getattr(value, "__name__", value)
)
def test_no_setting_is_nan_or_infinite(kind, name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be a finite number"):
        kind(**{name: value})


@pytest.mark.parametrize(
    "make",
    [
        lambda: DetectorConfig(loss_weights="area=nan"),
        lambda: DetectorConfig(loss_weights="area=1,object=inf"),
        lambda: DataConfig(dataset_options="margin=1e999"),
        lambda: teachers.get("silhouettes:share=nan"),
    ],
)
def test_nor_are_settings_that_come_as_text(make):
    with pytest.raises(ValueError, match="must be a finite number"):
        make()


def test_dataset_options_become_numbers_where_they_are_numbers():
    config = DataConfig(dataset_options="num_train=12, test_fraction=0.25,boxes=a=b.csv")
    assert config.options() == {"num_train": 12, "test_fraction": 0.25, "boxes": "a=b.csv"}


def flags_of(tool, *arguments):
    """Return what a training tool makes of its flags, or what it says when it refuses them."""
    code = f"""
import sys
from absl import flags
from tools import config_flags, {tool} as tool
flags.FLAGS(sys.argv)
print(*config_flags.read_run(), sep=chr(10))
assert "tensorflow" not in sys.modules and "keras" not in sys.modules
"""
    process = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True
    )
    return process.returncode, process.stdout + process.stderr


@pytest.mark.parametrize("tool", ["train", "train_generator", "sweep"])
def test_without_flags_a_tool_has_the_defaults_and_needs_no_tensorflow(tool):
    code, output = flags_of(tool)
    assert code == 0, output
    assert output.splitlines() == [repr(TrainConfig()), repr(RunOptions())]


def test_a_flag_changes_its_own_setting_alone():
    flags = ("--loss_weights=area=4", "--classifier_epochs=3", "--second_look=1.5", "--seed=7")
    code, output = flags_of("train", *flags)
    expected = TrainConfig(
        classifier=ClassifierConfig(epochs=3),
        detector=DetectorConfig(loss_weights="area=4"),
        second_look=1.5,
        seed=7,
    )
    assert code == 0, output
    assert output.splitlines()[0] == repr(expected)


def test_an_unknown_flag_is_refused():
    code, output = flags_of("train", "--detector_epoch=4")
    assert code != 0
    assert "Unknown command line flag 'detector_epoch'" in output


@pytest.mark.parametrize("path", RECIPES, ids=os.path.basename)
def test_a_recipe_is_understood_and_opens_with_its_command(path):
    code, output = flags_of("train", f"--flagfile={path}")
    assert code == 0, output
    with open(path, encoding="utf-8") as file:
        comment = "".join(line for line in file if line.startswith("#"))
    name = os.path.basename(path)
    assert f"gc-net train --flagfile=recipes/{name}" in comment
    assert "Run time:" in comment
    assert "Score:" in comment


CONTINUED = """
import sys
from absl import flags
from tools import config_flags, train
flags.FLAGS(sys.argv)
print(config_flags.read_continued()[0].resolved())
"""


def test_what_is_not_given_is_as_in_the_run_that_is_continued_unless_there_is_a_recipe(tmp_path):
    first = small_config(seed=7, second_look=1.0).resolved()
    write_settings(str(tmp_path / "first"), first.to_dict())

    def said(*arguments):
        process = run_python(CONTINUED, *arguments)
        assert process.returncode == 0, process.stderr
        return process.stdout.splitlines()

    here, there = f"--work_dir={tmp_path / 'first'}", f"--work_dir={tmp_path / 'second'}"
    told = f"Settings that are not given are those of the run in {tmp_path / 'first'}."
    assert said(here) == [told, repr(first)]
    changed = with_flags(first, {"second_look": 1.5, "data_dir": "moved"})
    assert said(here, "--second_look=1.5", "--data_dir=moved") == [told, repr(changed)]
    # Another shape, or more epochs, of a run whose other stages are taken as they are.
    ellipse = with_flags(first, {"detector_shape": "rotated_ellipse", "detector_epochs": 9})
    given = ("--detector_shape=rotated_ellipse", "--detector_epochs=9")
    assert said(there, f"--reuse={tmp_path / 'first'}", *given) == [told, repr(ellipse)]
    # What follows from the head follows from the given one, and one more stage needs that look.
    changes = {"detector_head": "edges", "second_classifier_epochs": 2}
    edges = with_flags(first, {**changes, "detector_parametrization": "edges"})
    given = (f"--{name}={value}" for name, value in changes.items())
    assert said(there, f"--reuse={tmp_path / 'first'}", *given) == [told, repr(edges)]
    boxes = with_flags(first, {"dataset_options": "num_train=26,boxes=b.csv", "dataset": "folder"})
    given = ("--dataset_options=num_train=26", "--boxes=b.csv", "--dataset=folder")
    assert said(here, *given) == [told, repr(boxes)]
    assert said(there) == [repr(TrainConfig().resolved())]
    recipe = tmp_path / "recipe.flags"
    recipe.write_text("--seed=7\n")
    assert said(here, f"--flagfile={recipe}") == [repr(TrainConfig(seed=7).resolved())]


def test_boxes_are_an_option_of_evaluation_under_the_same_name_as_in_other_tools():
    code, output = flags_of("train", "--boxes=b.csv", "--dataset_options=test_fraction=0.1")
    data = DataConfig(dataset_options="test_fraction=0.1,boxes=b.csv")
    assert code == 0 and output.splitlines()[0] == repr(TrainConfig(data=data))
    code, output = flags_of("train", "--boxes=b.csv", "--dataset=cub")
    assert code != 0 and "cub has its own boxes" in output
