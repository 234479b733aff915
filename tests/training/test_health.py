"""Every failure mode, provoked by logs, and four of them by training; health stays quiet."""

import dataclasses
import math
import re

import keras
import numpy as np
import pytest

import gc_net
from gc_net.generators.model import ModelGenerator
from gc_net.stages import config
from gc_net.training.callbacks import HealthCheck
from gc_net.training.health_rules import RULES, Setup, TrainingHistory, diagnose

WEIGHTS = {"area": 2.5, "object": 1.0, "background": 1.0}
SETUP = Setup(num_classes=200, loss_weights=WEIGHTS, learning_rate=1e-4, head="native")
# An epoch of a detector that does well on 200 classes.
HEALTHY = {
    "loss": 2.0,
    "area_loss": 0.40,
    "object_loss": 1.2,
    "background_loss": -4.0,
    "object_accuracy": 0.62,
    "background_accuracy": 0.15,
    "epsilon": 0.09,
    "mean_cx": 0.51,
    "mean_cy": 0.49,
    "mean_width": 0.62,
    "mean_height": 0.64,
    "mean_angle": 0.1,
    "spread_cx": 0.05,
    "spread_cy": 0.04,
    "spread_width": 0.06,
    "spread_height": 0.05,
    "spread_angle": 0.3,
}
FRESH = {
    **HEALTHY,
    "area_loss": 0.26,
    "mean_width": 0.51,
    "mean_height": 0.51,
    "object_accuracy": 0.3,
    "background_accuracy": 0.3,
    "spread_cx": 0.01,
    "spread_cy": 0.01,
    "spread_width": 0.01,
    "spread_height": 0.01,
    "spread_angle": 0.02,
}
NO_SPREAD = {name: 1e-4 for name in HEALTHY if name.startswith("spread_")}
NO_MOVE = {f"mean_{name}": 0.5 for name in ("cx", "cy", "width", "height")} | {"mean_angle": 0.0}
# Name, what an epoch's logs say instead, and what the advice must name.
MODES = [
    (
        "not_finite",
        {"loss": math.nan, "object_loss": math.nan},
        "_learning_rate (0.0001 now)",
    ),
    (
        "not_finite",
        {"loss": math.nan},
        "another --work_dir with a lower --detector_learning_rate",
    ),
    ("not_finite", {"loss": math.inf}, "--mixed_precision"),
    (
        "dot",
        {"area_loss": 0.004, "mean_width": 0.06},
        "(2.5 now), say --loss_weights=area=1",
    ),
    (
        "dot",
        {"area_loss": 0.03, "object_accuracy": 0.05},
        "weight of the object loss (1 now)",
    ),
    ("whole_image", {"area_loss": 0.79}, "area loss (2.5 now), say --loss_weights=area=6.2"),
    ("whole_image", {"area_loss": 0.98, "mean_width": 0.99}, "--classifier_num_folds=2"),
    ("same_everywhere", NO_SPREAD, "lower --detector_learning_rate"),
    ("same_everywhere", NO_SPREAD, "--detector_head=position"),
    ("same_everywhere", NO_SPREAD | NO_MOVE, "more epochs"),
    ("saturated", {"mean_cx": 0.005}, "--detector_head_multiplier"),
    ("saturated", {"mean_height": 0.99}, "lower --detector_learning_rate"),
    ("saturated", {"spread_cy": 0.47}, "lower --detector_learning_rate"),
    ("object_at_chance", {"object_accuracy": 0.006}, "--classifier_mask_fraction=0.5"),
    ("wide_edge", {"epsilon": 1.7}, "--detector_generator=learned"),
    ("narrow_edge", {"epsilon": 0.0004}, "--detector_preset=paper"),
]


def modes(*history, setup=SETUP, **options):
    return [finding.mode for finding in diagnose(TrainingHistory(history, setup=setup, **options))]


@pytest.mark.parametrize("mode, change, advice", MODES)
def test_each_mode_is_recognised_alone_and_advises(mode, change, advice):
    history = [FRESH, HEALTHY, {**HEALTHY, **change}]
    (finding,) = diagnose(TrainingHistory(history, setup=SETUP))
    assert finding.mode == mode
    assert advice in finding.advice
    assert not re.search(r"\s[;,.]", finding.advice)
    assert re.search(r"\d|nan|inf", finding.seen), "what was seen comes with its numbers"


@pytest.mark.parametrize(
    "change",
    [
        {"area_loss": 0.30, "mean_width": 0.53, "mean_height": 0.55},
        {"area_loss": 0.72, "mean_width": 0.9, "mean_height": 0.8},
        {"area_loss": 0.04, "object_accuracy": 0.8},  # small objects, but found
        dict.fromkeys(NO_SPREAD, 0.008),
        {**NO_SPREAD, "spread_angle": 0.03},  # something still depends on the image
        {"mean_angle": 1.56, "spread_angle": 1.5},  # upright: both ends of the range are one axis
        {"epsilon": 0.01},
        {"epsilon": 0.6},
        {"object_accuracy": 0.02, "background_accuracy": 0.01},
    ],
)
@pytest.mark.parametrize("finished", [False, True])
def test_healthy_courses_are_left_alone(change, finished):
    assert modes(FRESH, HEALTHY, {**HEALTHY, **change}, finished=finished) == []


@pytest.mark.parametrize("spread", [0.0, 0.001, 0.01, 0.05])
def test_a_fresh_start_is_not_blamed_for_a_small_spread(spread):
    first = {**FRESH, **dict.fromkeys(NO_SPREAD, spread)}
    assert modes(first) == []
    assert modes(first, fresh=False) == (["same_everywhere"] if spread < 0.004 else [])


def test_a_small_shape_that_grows_again_is_not_a_dot():
    small = {**HEALTHY, "area_loss": 0.02, "object_accuracy": 0.05}
    assert modes(small, {**small, "area_loss": 0.03}) == []
    assert modes(small, small) == ["dot"]
    assert modes(small, {**small, "area_loss": 0.015}) == ["dot"]


@pytest.mark.parametrize(
    "background_accuracy, background_loss, recognised",
    [(0.5, -1.0, True), (0.5, -4.5, False), (0.2, -1.0, False), (0.006, -1.0, False)],
)
def test_a_recognised_background_counts_at_the_end_and_where_it_is_believed(
    background_accuracy, background_loss, recognised
):
    logs = {
        **HEALTHY,
        "background_accuracy": background_accuracy,
        "background_loss": background_loss,
    }
    assert modes(HEALTHY, logs) == []
    assert modes(HEALTHY, logs, finished=True) == ["background_recognised"] * recognised


@pytest.mark.parametrize("num_classes", [2, 3, 10, 200, 1000])
def test_chance_is_told_from_recognition_for_any_number_of_classes(num_classes):
    setup = Setup(num_classes=num_classes)
    chance = 1 / num_classes
    found = [
        modes(HEALTHY, {**HEALTHY, "object_accuracy": accuracy}, setup=setup)
        for accuracy in (chance, min(0.7, 3 * chance))
    ]
    assert found == [["object_at_chance"], []]


@pytest.mark.parametrize("mode, area", [("dot", 0.002), ("whole_image", 0.999)])
def test_what_follows_from_a_dot_or_a_whole_image_is_not_reported_beside_it(mode, area):
    logs = {**HEALTHY, "area_loss": area, "mean_width": area, "mean_cx": 0.001}
    logs |= {"background_accuracy": 0.6, "background_loss": 0.0}
    logs |= {"object_accuracy": 0.005} if mode == "dot" else {}
    assert modes(HEALTHY, logs, finished=True) == [mode]


def test_cross_fitting_is_not_advised_where_it_is_done():
    logs = {**HEALTHY, "area_loss": 0.9}
    for cross_fitted in (True, False):
        training = TrainingHistory([logs], setup=Setup(cross_fitted=cross_fitted))
        assert ("num_folds" in diagnose(training)[0].advice) is not cross_fitted


def test_other_models_logs_are_only_checked_for_numbers():
    assert modes({"loss": 0.3, "accuracy": 0.5}, setup=Setup(), finished=True) == []
    assert modes({"loss": math.nan, "accuracy": 0.5}, setup=Setup()) == ["not_finite"]


def test_every_flag_in_a_message_exists():
    options = {field.name for field in dataclasses.fields(config.RunOptions)}
    known = {*config.setting_flags(), *options}
    histories = [[HEALTHY, {**HEALTHY, **change}] for _, change, _ in MODES]
    histories.append([HEALTHY, {**HEALTHY, "background_accuracy": 0.6, "background_loss": -0.5}])
    findings = [
        finding
        for history in histories
        for finding in diagnose(TrainingHistory(history, finished=True, setup=SETUP))
    ]
    named = {flag for finding in findings for flag in re.findall(r"--(\w+)", finding.advice)}
    assert {finding.mode for finding in findings} == {rule.__name__ for rule in RULES}
    assert named <= known and len(named) >= 8


# The callback.


class Recorder:
    """A `HealthCheck` and what it reported, told of epochs without a model."""

    def __init__(self, **options):
        self.messages = []
        self.check = HealthCheck(report=self.messages.append, setup=SETUP, **options)
        self.check.on_train_begin()

    def epochs(self, *history, first=0):
        for epoch, logs in enumerate(history, first):
            self.check.on_epoch_end(epoch, logs)
        return self

    def warnings(self):
        return [message for message in self.messages if message.startswith("Warning")]


def test_a_mode_is_reported_once_until_it_is_over_and_again_when_it_returns():
    whole = {**HEALTHY, "area_loss": 0.8}
    recorder = Recorder().epochs(FRESH, whole, whole, HEALTHY, whole)
    assert len(recorder.warnings()) == 1 and "epoch 2" in recorder.warnings()[0]
    recorder.epochs(HEALTHY, HEALTHY, first=5)
    assert recorder.messages[-1] == "Epoch 7: whole image is over."
    recorder.epochs(whole, first=7)
    assert len(recorder.warnings()) == 2
    recorder.check.on_train_end()
    assert recorder.messages[-1].splitlines() == [
        "Health:",
        "  whole image: epochs 2–5, then over.",
        "  whole image: epoch 8, still so at the end.",
    ]


def test_a_healthy_course_ends_with_one_line():
    recorder = Recorder().epochs(FRESH, HEALTHY, HEALTHY)
    recorder.check.on_train_end()
    assert recorder.messages == ["Health: nothing wrong seen in 3 epochs."]


def test_the_background_is_judged_when_training_ends():
    recorder = Recorder().epochs({**HEALTHY, "background_accuracy": 0.6, "background_loss": -0.5})
    assert not recorder.messages
    recorder.check.on_train_end()
    assert [episode.mode for episode in recorder.check.episodes] == ["background_recognised"]


def test_resumed_training_is_not_taken_for_a_fresh_start():
    recorder = Recorder().epochs({**HEALTHY, **NO_SPREAD}, first=4)
    assert [episode.mode for episode in recorder.check.episodes] == ["same_everywhere"]
    assert "epoch 5" in recorder.warnings()[0]


def test_a_warmed_up_detector_is_not_taken_for_a_fresh_head():
    small = {**HEALTHY, "area_loss": 0.015, "object_accuracy": 0.05}
    for logs in ({**HEALTHY, **NO_SPREAD}, small):
        fresh, warm = Recorder().epochs(logs), Recorder(fresh=False).epochs(logs)
        assert len(warm.warnings()) == 1
        assert warm.warnings() != fresh.warnings()
        # Of how it started and how soon it got here nothing is known.
        assert "before" not in warm.warnings()[0] and "so soon" not in warm.warnings()[0]


def test_only_a_shape_that_grew_is_said_to_grow():
    large, larger = {**HEALTHY, "area_loss": 0.8}, {**HEALTHY, "area_loss": 0.85}
    histories = {"grows to": [(large,), (HEALTHY, large), (large, larger)]}
    histories["covers nearly"] = [(large, large), (larger, large)]
    for does, those in histories.items():
        for history in those:
            (finding,) = diagnose(TrainingHistory(history, setup=SETUP))
            assert f"The shape {does} the whole image" in finding.seen
            assert ("Nothing holds it back" in finding.seen) == (does == "grows to")
    (finding,) = diagnose(TrainingHistory([large], fresh=False, finished=True, setup=SETUP))
    assert "covers nearly" in finding.seen


def test_large_shapes_of_a_warm_up_are_given_the_time_to_shrink():
    areas = (0.95, 0.86, 0.77, 0.76)
    history = [{**HEALTHY, "area_loss": area, "mean_width": 0.99} for area in areas]
    found = [modes(*history[: n + 1], fresh=False) for n in range(len(areas))]
    assert found == [[], [], [], ["whole_image"]]
    # At the end there is no next epoch to wait for.
    assert modes(history[0], fresh=False, finished=True) == ["whole_image"]
    assert modes(*history[:2], fresh=False, finished=True) == ["whole_image"]


def test_batches_of_one_image_have_no_spread_to_watch():
    logs = {**HEALTHY, **dict.fromkeys(NO_SPREAD, 0.0)}
    assert Recorder().epochs(logs, logs).warnings()
    assert not Recorder(watch_spread=False).epochs(logs, logs).warnings()


# Real training.

SIZE = 32


@pytest.fixture(scope="module")
def images():
    """Grey images with a red or a blue square somewhere."""
    rng = np.random.default_rng(0)
    images = rng.uniform(90, 130, (32, SIZE, SIZE, 3)).astype("float32")
    labels = np.arange(32, dtype="int32") % 2
    for image, label in zip(images, labels, strict=True):
        x, y = rng.integers(5, SIZE - 5, 2)
        image[y - 5 : y + 5, x - 5 : x + 5] = (230, 20, 20) if label else (20, 20, 230)
    return images, labels


@pytest.fixture(scope="module")
def classifier(images):
    keras.utils.set_random_seed(0)
    classifier = gc_net.Classifier("tiny", num_classes=2, image_size=SIZE, weights=None)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # Eagerly: for a few steps, tracing would take longer than all of them.
    classifier.compile(keras.optimizers.Adam(0.02), loss, run_eagerly=True)
    classifier.fit(*images, batch_size=16, epochs=6, verbose=0)
    assert (np.argmax(classifier.predict_on_batch(images[0]), -1) == images[1]).mean() > 0.9
    return classifier


def train(classifier, images, rate, epochs=3, head="position", **loss_weights):
    """Train a detector and return its `HealthCheck`, the messages, and the history."""
    keras.utils.set_random_seed(0)
    model = gc_net.GCNet(
        gc_net.Detector("tiny", "rectangle", image_size=SIZE, head=head, weights=None),
        ModelGenerator("rectangle", image_size=SIZE),
        classifier,
        loss_weights={"area": 1.0, "object": 1.0, "background": 1.0, **loss_weights},
    )
    model.compile(gc_net.optimizers.Adam(rate), run_eagerly=True)
    messages = []
    check = HealthCheck(report=messages.append)
    history = model.fit(*images, batch_size=16, epochs=epochs, verbose=0, callbacks=[check])
    return [episode.mode for episode in check.episodes], messages, history.history


def test_a_normal_training_is_left_alone(classifier, images):
    found, messages, history = train(classifier, images, rate=1e-3)
    assert not {"dot", "whole_image", "same_everywhere", "not_finite", "saturated"} & set(found)
    assert messages[-1].startswith("Health:") and len(history["loss"]) == 3


def test_too_large_an_alpha_makes_a_dot(classifier, images):
    found, messages, history = train(classifier, images, rate=0.01, area=100)
    assert "dot" in found and history["area_loss"][-1] < 0.05
    assert "the area loss (100 now)" in messages[0] and "_learning_rate (0.01 now)" in messages[0]


def test_no_alpha_makes_the_whole_image(classifier, images):
    found, messages, history = train(classifier, images, rate=0.02, area=0, object=20)
    assert found[0] == "whole_image" and history["area_loss"][-1] > 0.75
    assert "area loss (0 now), say --loss_weights=area=1" in messages[0]


def test_too_high_a_rate_makes_all_shapes_the_same(classifier, images):
    found, _, history = train(classifier, images, rate=1.0, head="native")
    spreads = [history[f"spread_{name}"][-1] for name in ("cx", "cy", "width", "height")]
    assert "same_everywhere" in found and max(spreads) < 0.004, history


def test_nan_ends_training_within_the_epoch(classifier, images):
    broken = images[0].copy()
    broken[:] = np.nan
    found, messages, history = train(classifier, (broken, images[1]), rate=1e-3)
    assert found == ["not_finite"] and len(history["loss"]) == 1
    assert "The weights are lost" in messages[0]
