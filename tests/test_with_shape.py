"""A model with the head of edges draws any shape, without another training."""

import keras
import numpy as np
import pytest

import gc_net
from gc_net.classifier import Classifier
from gc_net.detector import Detector
from gc_net.generators.model import ModelGenerator
from gc_net.localizer import Localizer
from gc_net.shapes import SHAPES
from tests.processes import run_tool


@pytest.fixture(scope="module")
def upright():
    keras.utils.set_random_seed(0)
    detector = Detector("tiny", "rectangle", 32, head="edges", weights=None)
    generator = ModelGenerator("rectangle", 32)
    return Localizer(detector, generator, Classifier("tiny", 2, 32, weights=None), ["a", "b"])


@pytest.mark.parametrize("shape", list(SHAPES))
def test_the_same_networks_place_another_shape_around_the_same_place(upright, shape):
    images = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3)).astype(np.uint8)
    other = upright.with_shape(shape)
    assert other.shape.name == other.generator.shape.name == shape
    box, found = (
        np.asarray(each.shape.boxes(each.place(images).coefficients)) for each in (upright, other)
    )
    np.testing.assert_allclose(found[:, :2] + found[:, 2:], box[:, :2] + box[:, 2:], atol=1e-4)
    area = [np.prod(each[:, 2:] - each[:, :2], axis=1) for each in (box, found)]
    np.testing.assert_allclose(*area, rtol=1e-3)


def test_a_head_that_has_learned_one_shape_is_refused(upright):
    detector = Detector("tiny", "rectangle", 32, head="position", weights=None)
    with pytest.raises(ValueError, match="has learned to place one shape, 'rectangle'"):
        upright.replace(detector=detector).with_shape("rotated_ellipse")


@pytest.mark.parametrize("flag", ["detector_shape", "shape"])  # the second is an older name
def test_the_command_writes_a_model_that_draws_the_shape(upright, tmp_path, flag):
    upright.save(tmp_path / "upright")
    given = [f"--model={tmp_path / 'upright'}", f"--{flag}=rotated_ellipse"]
    process = run_tool("change_shape", *given, f"--output={tmp_path / 'turned'}")
    assert process.returncode == 0, process.stderr
    assert gc_net.load(tmp_path / "turned").shape.name == "rotated_ellipse"
