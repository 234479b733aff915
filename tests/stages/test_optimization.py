"""Rates, schedules and decays of the stages, compared with the formulas they stand for."""

import keras
import numpy as np
import pytest

from gc_net import presets
from gc_net.classifier import Classifier
from gc_net.generators.fitting import compile_generator
from gc_net.generators.learned import LearnedGenerator
from gc_net.generators.model import ModelGenerator
from gc_net.optimizers import SGD
from gc_net.stages import detector as detector_stage
from gc_net.stages.classifier import ClassifierConfig
from gc_net.stages.generator import GeneratorConfig
from gc_net.training.masked_classifier import fast_optimizer, paper_optimizer
from tests.training.samples import small_config


def test_l2_is_part_of_the_gradient_and_of_its_momentum():
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=3), rng.normal(size=(5, 3))
    variable = keras.Variable(start, dtype="float32")
    optimizer = SGD(0.1, momentum=0.9, l2=0.05)
    expected, momentum = start.copy(), np.zeros(3)
    for gradient in gradients:
        optimizer.apply([keras.ops.convert_to_tensor(gradient, "float32")], [variable])
        momentum = 0.9 * momentum + gradient + 0.05 * expected
        expected = expected - 0.1 * momentum
    np.testing.assert_allclose(variable, expected, rtol=1e-4)


def test_l2_survives_saving():
    assert SGD.from_config(SGD(0.1, l2=0.05).get_config()).l2 == 0.05


def rates(schedule, steps):
    return [float(schedule(step)) for step in range(steps)]


def test_the_papers_rate_is_cut_after_two_fifths_and_three_quarters():
    optimizer = paper_optimizer(ClassifierConfig(recipe="paper"), 40)
    expected = [1e-3] * 16 + [1e-4] * 14 + [1e-5] * 10
    assert rates(optimizer._learning_rate, 40) == pytest.approx(expected)
    assert optimizer.l2 == 5e-4


def test_the_fast_rate_rises_then_falls_to_zero():
    optimizer = fast_optimizer(ClassifierConfig(learning_rate=1e-3), 100)
    found = rates(optimizer._learning_rate, 101)
    assert found[0] == 0 and found[100] == pytest.approx(0, abs=1e-9)
    assert np.argmax(found) == 5 and max(found) == pytest.approx(1e-3)
    assert all(np.diff(found[:6]) > 0) and all(np.diff(found[5:]) < 0)


@pytest.mark.parametrize(
    "recipe, given, first",
    [
        ("fast", None, 2e-3),
        ("paper", None, 0.1),
        ("fast", 0.5, 0.5),
        ("paper", 0.5, 0.5),
    ],
)
def test_a_generators_rate_is_its_recipes_where_none_is_given(recipe, given, first):
    generator = LearnedGenerator("rectangle", 16, weights=None)
    config = GeneratorConfig(recipe=recipe, learning_rate=given, steps=120)
    compile_generator(generator, config)
    found = rates(generator.optimizer._learning_rate, 121)
    assert found[0] == pytest.approx(first)
    if recipe == "paper":
        assert found[-1] == pytest.approx(1e-4 * first)
    else:
        assert found[-1] == 0


@pytest.mark.parametrize("preset", presets.PRESETS.names)
def test_a_detectors_rate_follows_its_preset_epoch_by_epoch(preset):
    config = small_config(detector={"preset": preset, "epochs": 30, "learning_rate": 0.01})
    schedule = detector_stage.schedule(config.detector, num_steps=60)
    found = rates(schedule, 60) if callable(schedule) else [schedule] * 60
    expected = [0.01 * presets.get(preset).rate_factor(step // 2, 30) for step in range(60)]
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.fixture(scope="module")
def classifier():
    return Classifier("tiny", num_classes=3, weights=None)


def composed(classifier, **settings):
    config = small_config(detector=settings).resolved()
    detector = detector_stage.build_detector(config, classifier)
    generator = ModelGenerator("rotated_rectangle", 32)
    model = detector_stage.compose(config.detector, detector, generator, [classifier])
    detector_stage.compile_detector(model, config.detector, num_steps=4)
    model.optimizer.build(model.trainable_variables)
    return model


def factors(model):
    variables = model.trainable_variables
    return {v.path: f for v, f in zip(variables, model.optimizer._factors, strict=True)}


def test_head_and_epsilon_have_rates_of_their_own(classifier):
    found = factors(composed(classifier, head_multiplier=3.0, epsilon_multiplier=0.5))
    heads = [f for path, f in found.items() if "outputs" in path or "squeeze" in path]
    assert heads and set(heads) == {3.0}
    assert [f for path, f in found.items() if "sharpness" in path] == [0.5]
    assert {f for path, f in found.items() if "conv" in path} == {1.0}


def test_without_multipliers_the_preset_decides(classifier):
    assert set(factors(composed(classifier)).values()) == {1.0}
    found = factors(composed(classifier, preset="reference"))
    assert {f for path, f in found.items() if path.endswith("outputs/kernel")} == {10.0}


def test_loss_weights_are_the_presets_where_they_are_not_given(classifier):
    model = composed(classifier, loss_weights="area=7")
    assert model.loss_weights == {"area": 7.0, "object": 2.5, "background": 1.0}


@pytest.mark.parametrize("initialize", ["classifier", "backbone"])
def test_the_trunk_starts_from_what_was_asked_for(classifier, initialize):
    detector = composed(classifier, initialize=initialize).detector
    same = [
        np.array_equal(a, b)
        for a, b in zip(detector.trunk.get_weights(), classifier.trunk.get_weights(), strict=True)
        if a.ndim == 4
    ]
    assert all(same) if initialize == "classifier" else not any(same)
