"""What CONTRIBUTING.md shows works as it is printed, and is found without another edit."""

import contextlib
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from gc_net import Classifier, Detector, teachers
from gc_net.backbones import BACKBONES
from gc_net.data.pipeline import training_batches
from gc_net.datasets import DATASETS
from gc_net.experiments import sweep
from gc_net.generators import GENERATORS
from gc_net.losses import LOSS_TERMS
from gc_net.methods import METHODS
from gc_net.methods.base import Forward
from gc_net.parametrizations import PARAMETRIZATIONS
from gc_net.prediction.formats import FORMATS
from gc_net.registry import Registry
from gc_net.shapes import SHAPES
from gc_net.stages import config as stage_config
from gc_net.stages import runner
from tests.prediction.models import CLASS_NAMES
from tests.prediction.test_formats import RESULTS
from tests.training.samples import small_config, small_options

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
EXAMPLES = {
    section.partition("\n")[0]: code[1]
    for section in TEXT.split("\n## ")
    if (code := re.search(r"```python\n(.*?)```", section, re.S))
}


@pytest.fixture
def example(monkeypatch):
    """A function that runs an example, whose registration ends with the test."""
    with contextlib.ExitStack() as registrations:
        register = Registry.register

        def register_for_a_while(registry, name, target):
            registrations.enter_context(register(registry, name, target))

        monkeypatch.setattr(Registry, "register", register_for_a_while)
        yield lambda title: exec(EXAMPLES[title], {})


# The tool whose help shows the name, for each kind.
TOOLS = {
    "A shape": ("train", "detector_shape"),
    "A parametrization": ("train", "detector_parametrization"),
    "A backbone": ("train", "backbone"),
    "A head": ("train", "detector_head"),
    "A generator": ("train", "detector_generator"),
    "A loss term": ("train", None),
    "A teacher": ("train", None),
    "A dataset": ("train", "dataset"),
    "A method to compare with": ("evaluate", "methods"),
    "A label format": ("predict", "format"),
    "A stage": ("train", "stage"),
}


def test_every_example_is_tested():
    assert EXAMPLES.keys() == TOOLS.keys()
    assert all(len(code.splitlines()) <= 27 for code in EXAMPLES.values())


@pytest.mark.parametrize("tool", sorted({tool for tool, _ in TOOLS.values()}))
def test_what_is_registered_is_in_the_help_of_its_tool(tool):
    examples = {title: flag for title, (name, flag) in TOOLS.items() if name == tool and flag}
    code = "\n".join(EXAMPLES[title] for title in examples)
    code += f"\nfrom tools import program, {tool}\nprint(program.help_text({tool}.main))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for title, flag in examples.items():
        name = re.search(r'\.register\("(\w+)"', EXAMPLES[title])[1]
        assert re.search(rf"^  --{flag}\b(?:(?!\n  --)[\s\S])*\b{name}\b", done.stdout, re.M), title


def test_the_shape_is_found_again_in_its_masks(example):
    example("A shape")
    shape = SHAPES.get("diamond")()
    coefficients = np.array([[0.5, 0.45, 0.6, 0.3, 0.4]], "float32")
    mask = np.asarray(shape.masks(coefficients, 200, 200))[0, ..., 0] > 0.5
    np.testing.assert_allclose(shape.fit(mask), coefficients[0], atol=0.01)
    rows, columns = np.nonzero(mask)
    box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    np.testing.assert_allclose(200 * np.asarray(shape.boxes(coefficients))[0], box, atol=1.5)


def test_the_backbone_carries_a_classifier(example):
    example("A backbone")
    classifier = Classifier("wide", num_classes=3, image_size=32, weights=None)
    assert classifier(np.zeros([2, 32, 32, 3], "float32")).shape == (2, 3)
    backbone = BACKBONES.get("wide")()
    assert backbone.trunk(32).get_layer(backbone.descriptor_layer).output.shape == (None, 4, 4, 64)


def test_the_parametrization_is_undone_by_its_own_inverse(example):
    example("A parametrization")
    parametrization, shape = PARAMETRIZATIONS.get("straight")(), SHAPES.get("rotated_ellipse")()
    coefficients = np.array([[0.3, 0.6, 0.2, 0.7, -1.1], [0.5, 0.5, 0.9, 0.1, 0.4]], "float32")
    raw = parametrization.encode(coefficients, shape)
    np.testing.assert_allclose(parametrization.decode(raw, shape), coefficients, atol=1e-5)


def test_the_head_carries_a_detector(example):
    example("A head")
    detector = Detector("tiny", "rectangle", 32, head="two_pools", weights=None)
    assert detector(np.zeros([2, 32, 32, 3], "float32")).shape == (2, 4)
    assert detector.head.get_layer("both").output.shape == (None, 2 * 32)


def test_the_generator_draws_the_shape(example):
    example("A generator")
    generator = GENERATORS.get("sigmoid")("rotated_ellipse", image_size=64, epsilon=0.02)
    coefficients = np.array([[0.5, 0.45, 0.6, 0.3, 0.4]], "float32")
    exact = generator.shape.masks(coefficients, 64, 64)
    np.testing.assert_array_equal(generator(coefficients) > 0.5, np.asarray(exact) > 0.5)


def test_the_loss_term_is_one_of_a_models_losses(example):
    example("A loss term")
    term = LOSS_TERMS.get("elongation")()
    coefficients = np.array([[0.5, 0.5, 0.9, 0.2], [0.5, 0.5, 0.3, 0.4]], "float32")
    np.testing.assert_allclose(term(np.zeros(2), {"coefficients": coefficients}), 0.4)


def test_the_teacher_shows_what_its_settings_say(example):
    example("A teacher")
    teacher = teachers.get("middle:extent=0.7")
    lesson = SimpleNamespace(shape=SHAPES.get("rectangle")())
    targets = teacher.placer(lesson).place(np.zeros([3, 32, 32, 3]))
    np.testing.assert_allclose(targets.coefficients, [[0.5, 0.5, 0.7, 0.7]] * 3)
    assert (targets.weights == 1).all()


def test_the_dataset_feeds_a_training(example):
    example("A dataset")
    split = DATASETS.get("greys")().split("train")
    images, labels = next(iter(training_batches(split, image_size=32, batch_size=8)))
    bright = images.numpy().mean(axis=(1, 2, 3)) > 130
    assert (labels.numpy() == bright).all()


def test_the_method_has_a_map_that_is_high_where_the_image_is_bright(example):
    example("A method to compare with")
    images = np.zeros([2, 4, 4, 3], "float32")
    images[:, 1, 2] = 1.0
    maps = METHODS.get("brightness")().localize(Forward(images, None, None, None))
    np.testing.assert_array_equal(maps, images[..., 0])


def test_the_label_format_is_written(example, tmp_path):
    example("A label format")
    path = Path(FORMATS.get("words")().write(tmp_path, RESULTS.items(), CLASS_NAMES))
    for file, prediction in RESULTS.items():
        assert (path / file).with_suffix(".txt").read_text().startswith(prediction.class_name)


def test_the_stage_is_trained_recorded_and_shared(example, tmp_path, capsys):
    example("A stage")
    settings = small_config(classifier={"epochs": 1}).to_dict()
    done = []
    for name, batch_size in (("first", 6), ("other", 8), ("again", 6)):
        polish = {"epochs": 1, "batch_size": batch_size}
        config = stage_config.TrainConfig.from_dict({**settings, "polish": polish})
        reuse = ",".join(done)
        options = small_options(tmp_path / name, reuse=reuse, verbose=1)
        runner.train(config, options, ["polish"])
        done.append(str(tmp_path / name))
    said = capsys.readouterr().out
    assert "Stage 2 of 2: Polishing, 26 images" in said
    assert (tmp_path / "first" / "polish" / "model" / "model.json").exists()
    assert '"batch_size": 6' in (tmp_path / "first" / "polish" / "config.json").read_text()
    # With another setting only the classifier is taken over; with the same one nothing is trained.
    assert "first/polish is not reused: polish.batch_size: 6 there, 8 now." in said
    assert [path.name for path in (tmp_path / "other").glob("*/log.csv")] == ["log.csv"]
    assert f"Polishing: taken from {tmp_path / 'first' / 'polish'}." in said
    assert not list((tmp_path / "again").glob("*/log.csv"))
    # A sweep varies it by the name of its flag, and what the settings do not ask for is refused.
    varied = sweep.changed(config, {"polish_epochs": "0"})
    with pytest.raises(runner.RunError, match="Give --polish_epochs"):
        runner.train(varied, small_options(tmp_path / "none"), ["polish"])


# What takes part in one training, and the flags that ask for it.
TOGETHER = {
    "A shape": ["--detector_shape=diamond"],
    "A parametrization": ["--detector_parametrization=straight"],
    "A backbone": ["--backbone=wide", "--weights=none"],
    "A head": ["--detector_head=two_pools"],
    "A generator": ["--detector_generator=sigmoid"],
    "A loss term": ["--loss_weights=area=1,object=1,background=1,elongation=0.1"],
    "A teacher": ["--warmup_teacher=middle:extent=0.7", "--warmup_epochs=1"],
    "A dataset": ["--dataset=greys"],
}


@pytest.mark.slow
def test_what_is_registered_is_trained_recorded_reported_and_used(tmp_path):
    work_dir, photos = tmp_path / "run", tmp_path / "photos"
    code = "\n".join(EXAMPLES[title] for title in [*TOGETHER, "A label format"])
    # Before the tools are imported, as another package does.
    code += "\nfrom tools.__main__ import main\nmain()"

    def gc_net(*arguments):
        command = [sys.executable, "-c", code, *map(str, arguments)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return done.stdout

    flags = [flag for asked in TOGETHER.values() for flag in asked]
    sizes = [f"--{stage}_batch_size=8" for stage in ("classifier", "warmup", "detector")]
    epochs = ["--classifier_epochs=1", "--detector_epochs=1", "--image_size=32", "--notensorboard"]
    gc_net("train", *flags, *sizes, *epochs, f"--work_dir={work_dir}")
    recorded = json.loads((work_dir / "config.json").read_text())["config"]
    assert recorded["detector"]["shape"] == "diamond"
    assert recorded["detector"]["head"] == "two_pools"
    assert recorded["detector"]["generator"] == "sigmoid"
    assert recorded["detector"]["parametrization"] == "straight"
    assert recorded["network"]["backbone"] == "wide"
    assert recorded["warmup"]["teacher"] == "middle:extent=0.7"
    assert "elongation_loss" in (work_dir / "detector" / "log.csv").read_text()
    report = (work_dir / "evaluation" / "report.html").read_text()
    assert all(name in report for name in ("greys", "diamond", "sigmoid", "elongation"))

    photos.mkdir()
    cv2.imwrite(str(photos / "a.png"), np.full([50, 60, 3], 90, "uint8"))
    gc_net(
        "predict",
        f"--model={work_dir / 'model'}",
        f"--images={photos}",
        f"--output={tmp_path / 'labels'}",
        "--format=words",
    )
    (label,) = (tmp_path / "labels").rglob("a.txt")
    assert label.read_text().split()[0] in ("dark", "bright")
