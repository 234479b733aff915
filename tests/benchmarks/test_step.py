"""The parts of a training step that are timed alone are those of the step."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import step
from benchmarks.models import untrained_model
from gc_net import optimizers


@pytest.fixture(scope="module")
def model():
    model = untrained_model("tiny", image_size=32, num_classes=5)
    model.compile(optimizers.Adam(1e-3))
    model.optimizer.build(model.trainable_variables)
    return model


def test_a_report_has_a_row_for_every_backbone_and_size():
    conditions, table = step.report(
        backbones=["tiny"], image_sizes=[32, 40], batch_size=2, rounds=1
    )
    assert "batches of 2" in conditions
    assert [line.split(" | ")[1] for line in table.splitlines()[2:]] == ["32", "40"]


def test_parts_do_what_the_step_does(model):
    images, labels = step.noise(model, batch_size=4)
    ways = step.step_and_parts(model, images, labels)
    gradients = ways[step.DETECTOR]()
    assert [gradient.shape for gradient in gradients] == [
        variable.shape for variable in model.detector.trainable_variables
    ]
    assert ways[step.CLASSIFIER]().shape == (8, 32, 32, 3)  # object and background images
    (of_raw, of_sharpness), of_logits = ways[step.MASKS]()
    assert of_raw.shape == (4, 5) and of_sharpness.shape == () and of_logits.shape == (8, 5)
    assert all(np.abs(gradient).max() > 0 for gradient in (of_raw, of_sharpness, of_logits))


def test_the_step_trains_the_detector_and_leaves_the_classifier(model):
    ways = step.step_and_parts(model, *step.noise(model, batch_size=4))
    before = [
        [variable.numpy() for variable in part.trunk.variables]
        for part in (model.detector, model.classifier)
    ]
    ways[step.STEP]()
    after = [
        [variable.numpy() for variable in part.trunk.variables]
        for part in (model.detector, model.classifier)
    ]
    assert not all(map(np.array_equal, before[0], after[0]))
    assert all(map(np.array_equal, before[1], after[1]))


def test_noise_depends_on_the_seed_alone(model):
    images, labels = step.noise(model, 3, seed=1)
    again, _ = step.noise(model, 3, seed=1)
    other, _ = step.noise(model, 3, seed=2)
    assert images.dtype == tf.uint8 and labels.shape == (3,)
    assert np.array_equal(images, again) and not np.array_equal(images, other)
