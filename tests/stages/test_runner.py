"""All stages on a handful of drawn images: what they write, and that they can be resumed."""

import dataclasses
import json
import os
import re
import shutil

import numpy as np
import pytest

import gc_net
from gc_net.backbones import vgg16
from gc_net.classifier import Classifier
from gc_net.data.splits import DataError
from gc_net.saving import load_model, save_model
from gc_net.stages import run_folder, runner
from gc_net.stages.config import DataConfig, NetworkConfig
from gc_net.stages.detector import build_detector
from gc_net.stages.networks import build_classifier
from gc_net.stages.run_folder import RunError
from gc_net.stages.runner import Runner
from gc_net.stages.stage_run import StageRun
from gc_net.stages.warmup import WarmupConfig
from gc_net.training import loop
from gc_net.training.callbacks import CORLOC, CorLoc, HealthCheck, read_log
from gc_net.weights import named_variables, save_weights_npz
from tests.training.samples import assert_same_weights, small_config, small_options

CROSS_FITTED = {"num_folds": 2, "mask_fraction": 0.5, "batch_size": 4}
LEARNED = {"generator": "learned", "generator_network": "implicit", "generator_weights": "own"}


def config():
    detector = {**LEARNED, "loss_weights": "area=2"}
    return small_config(classifier=CROSS_FITTED, detector=detector, second_look=1.2)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A whole run: cross-fitted classifiers with masks, a generator of its own, a detector."""
    work_dir = tmp_path_factory.mktemp("finished")
    options = small_options(work_dir, log_corloc=6, tensorboard=True)
    runner.train(config(), options)
    return work_dir


def test_a_run_ends_with_a_model_that_localizes_and_classifies(finished):
    localizer = gc_net.load(finished / "model")
    images = np.full((2, 37, 37, 3), 100, np.float32)
    assert localizer.place(images).boxes.shape == (2, 4)
    assert localizer.first_look(images)["class_probabilities"].shape == (2, 3)
    assert len(localizer.class_names) == 3
    assert localizer.record.loss_weights["area"] == 2.0
    assert localizer.second_look == 1.2
    assert localizer.resize_size == 37


def test_a_run_records_all_settings_versions_and_the_seed(finished):
    record = json.loads((finished / "config.json").read_text())
    assert type(config()).from_dict(record["config"]) == config().resolved()
    assert record["environment"]["packages"]["keras"]


def test_every_epoch_of_every_stage_is_logged(finished):
    for stage in ("classifier", "classifier_fold0", "classifier_fold1"):
        assert [row["epoch"] for row in read_log(finished / stage / "log.csv")] == [0, 1]
    assert read_log(finished / "generator" / "log.csv")[-1]["loss"] > 0
    for row in read_log(finished / "detector" / "log.csv"):
        assert row.keys() >= {"area_loss", "object_loss", "background_loss", "mean_angle", CORLOC}
        assert 0 <= row[CORLOC] <= 1
    assert list((finished / "detector" / "tensorboard").iterdir())


def test_a_finished_run_leaves_no_checkpoints_and_is_not_trained_again(finished, monkeypatch):
    assert not list(finished.glob("**/checkpoints"))
    # As if it had been killed between the two: its result was there, and what led to it still is.
    (finished / "classifier" / "checkpoints").mkdir()
    (finished / "classifier" / "checkpoints" / "step-00000004.npz").write_bytes(b"?")
    monkeypatch.setattr(loop, "train", None)
    before = (finished / "model" / "weights.npz").stat().st_mtime_ns
    runner.train(config(), small_options(finished))
    assert (finished / "model" / "weights.npz").stat().st_mtime_ns == before
    assert not list(finished.glob("**/checkpoints"))


def test_the_model_classifies_as_the_classifier_of_all_images(finished):
    images = np.random.default_rng(0).uniform(0, 255, (3, 32, 32, 3)).astype(np.float32)
    classifier = load_model(finished / "classifier" / "model").model
    fold = load_model(finished / "classifier_fold0" / "model").model
    logits = np.asarray(gc_net.load(finished / "model").classifier(images))
    np.testing.assert_allclose(logits, classifier(images), rtol=1e-5)
    assert not np.allclose(logits, fold(images), rtol=1e-3)


def test_other_settings_are_refused_before_anything_is_written(finished):
    before = (finished / "config.json").read_bytes()
    other = small_config(classifier={**CROSS_FITTED, "epochs": 3}, detector=LEARNED)
    with pytest.raises(RunError, match=r"classifier\.epochs: 2 there, 3 now"):
        runner.train(other, small_options(finished))
    assert (finished / "config.json").read_bytes() == before


def test_other_images_are_refused(finished):
    from gc_net.datasets.creatures import Creatures

    dataset = Creatures(num_train=27, num_test=6, image_size=40, num_classes=3)
    with pytest.raises(RunError, match="training_images: '26 images"):
        runner.train(config(), small_options(finished), dataset=dataset)


@pytest.mark.slow
def test_a_run_stopped_in_every_stage_ends_with_the_same_weights(finished, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    save = loop._save
    saves = []

    def kill_after_some(model, checkpoints, done, *finished):
        save(model, checkpoints, done, *finished)
        saves.append(checkpoints.folder)
        if len(saves) % 3 == 0:
            raise Killed

    monkeypatch.setattr(loop, "_save", kill_after_some)
    kills = 0
    while True:
        try:
            runner.train(config(), small_options(tmp_path))
            break
        except Killed:
            kills += 1
    stages = {os.path.basename(os.path.dirname(folder)) for folder in saves[2::3]}
    assert kills >= 4 and len(stages) >= 3
    assert_same_weights(finished / "model", tmp_path / "model")


def test_stages_of_another_run_are_taken_where_their_settings_agree(finished, tmp_path, capsys):
    heavier = {**LEARNED, "loss_weights": "area=3"}
    other = small_config(classifier=CROSS_FITTED, detector=heavier)
    options = small_options(tmp_path, reuse=str(finished), verbose=1)
    runner.train(other, options)
    assert not list(tmp_path.glob("classifier*")) and not (tmp_path / "generator").exists()
    said = capsys.readouterr().out
    assert f"Classifier: taken from {finished / 'classifier'}." in said
    line = "detector is not reused: detector.loss_weights.area: 2 there, 3 now."
    assert f"{finished}/{line}" in said
    # Of what this run has trained, and of nothing else.
    (times,) = (line for line in said.splitlines() if line.startswith("Minutes by stage"))
    assert re.search(r": Detector \d+\.\d \(\d+\.\d\)\.$", times)
    trained = gc_net.load(tmp_path / "model").classifier
    expected = load_model(finished / "classifier" / "model").model
    for a, b in zip(trained.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_is_reused_makes_no_difference_to_the_weights(finished, tmp_path):
    options = small_options(tmp_path, reuse=str(finished))
    runner.train(config(), dataclasses.replace(options, work_dir=str(tmp_path / "taken")))
    assert not (tmp_path / "taken" / "detector").exists()
    assert_same_weights(finished / "model", tmp_path / "taken" / "model")


def test_the_last_stages_alone_find_the_work_of_all_of_them_together(finished, monkeypatch):
    monkeypatch.setattr(loop, "train", None)
    runner.train(config(), small_options(finished), ["detector"])


def test_a_second_look_can_be_chosen_afterwards(finished, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "train", None)
    shutil.copytree(finished, tmp_path / "run")
    runner.train(dataclasses.replace(config(), second_look=0.7), small_options(tmp_path / "run"))
    assert gc_net.load(tmp_path / "run" / "model").second_look == 0.7


def test_a_stage_can_see_no_settings_but_those_it_depends_on(tmp_path):
    with Runner(small_config(), small_options(tmp_path)) as run:
        seen = StageRun(run, run.units["classifier"]).config
        assert seen.classifier == run.config.classifier and seen.data == run.config.data
        with pytest.raises(AttributeError):
            seen.detector  # noqa: B018
        assert set(run.settings_of(run.units["classifier"])) == {
            *("data", "network", "classifier", "seed", "mixed_precision", "deterministic"),
            "training_images",
        }


def test_a_classifier_that_judges_in_training_mode_names_as_its_own_stage_left_it(tmp_path):
    runner.train(small_config(detector={"preset": "reference"}), small_options(tmp_path))
    named = gc_net.load(tmp_path / "model").classifier
    expected = load_model(tmp_path / "classifier" / "model").model
    for a, b in zip(named.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_native_head_takes_over_the_hidden_layers_of_the_classifier(monkeypatch):
    monkeypatch.setattr(vgg16, "HIDDEN_UNITS", 8)  # of 4,096, which take seconds to be drawn
    network = NetworkConfig(backbone="vgg16", weights="none")
    settings = small_config(detector={"head": "native", "initialize": "classifier"})
    settings = dataclasses.replace(settings, network=network).resolved()
    classifier = build_classifier(settings, num_classes=3)
    detector = build_detector(settings, classifier)
    for name in ("fc1", "fc2"):
        np.testing.assert_array_equal(
            detector.head.get_layer(name).kernel, classifier.head.get_layer(name).kernel
        )
    assert detector.head.get_layer("outputs").kernel.shape[-1] == 5


def test_a_finer_map_is_the_classifiers_alone(tmp_path):
    config = small_config(classifier={"finer_map": True})
    side = build_classifier(small_config(), num_classes=3).trunk.output_shape[1]
    runner.train(config, small_options(tmp_path))
    model = gc_net.load(tmp_path / "model")
    assert model.classifier.trunk.output_shape[1] == 2 * side
    assert model.detector.trunk.output_shape[1] == side


def test_a_single_class_is_refused(tmp_path):
    with Runner(small_config(), small_options(tmp_path)) as run:
        assert len(run.data.split) == 26  # it is read before the names are changed
        run.dataset.class_names = ("bird",)
        with pytest.raises(RunError, match=r"one class, 'bird'.* second class"):
            run.train()


def test_a_warm_up_of_no_epochs_is_refused_where_it_is_all_there_is(tmp_path):
    with pytest.raises(RunError, match=r"Give --warmup_epochs"):
        runner.train(small_config(), small_options(tmp_path), ["warmup"])


def test_images_that_no_judge_knows_the_class_of_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(loop, "train", lambda *arguments, **options: None)
    with Runner(small_config(classifier=CROSS_FITTED), small_options(tmp_path)) as run:
        labels = np.array(run.data.split.labels)
        labels[labels == 1] = 0
        labels[0] = 1
        run.data.split = dataclasses.replace(run.data.split, labels=labels)
        unit = run.units["classifier_fold0"]
        unit.check(StageRun(run, unit))
        name = run.dataset.class_names[1]
    assert f"a single training image of {name}. With" in capsys.readouterr().err


def test_a_wish_to_log_corloc_without_boxes_is_not_passed_over(tmp_path, capsys):
    with Runner(small_config(), small_options(tmp_path, log_corloc=4)) as run:
        run.dataset.truth = lambda name: None
        assert CorLoc.of(StageRun(run, run.units["detector"]), None) == []
    assert "no test boxes" in capsys.readouterr().err


def test_a_folder_without_a_classifier_is_refused(tmp_path):
    with pytest.raises(RunError, match=r"no classifier in .*--stage=classifier"):
        run_folder.run_settings(str(tmp_path), "classifier")


def test_a_layer_that_does_not_exist_is_refused_before_anything_is_written(tmp_path):
    def train(train_from):
        network = dataclasses.replace(small_config().network, train_from=train_from)
        settings = dataclasses.replace(small_config(), network=network)
        runner.train(settings, small_options(tmp_path / "run"), ["classifier"])

    with pytest.raises(
        RunError, match=r"--train_from=block9 .*begins with 'block9'. Its layers: .*conv"
    ):
        train("block9")
    assert not (tmp_path / "run").exists()
    train("conv2")
    assert load_model(tmp_path / "run" / "classifier" / "model")


WRONG = {
    "classifier batch": ({"classifier": {"batch_size": 27}}, "classifier has 26 .* batch of 27"),
    "fold's batch": ({"classifier": {"batch_size": 14, "num_folds": 2}}, "classifier has 13 "),
    "detector batch": ({"detector": {"batch_size": 27}}, "detector has 26 .* batch of 27"),
    "detector's batch of a fold": (
        {"classifier": {"num_folds": 2}, "detector": {"batch_size": 14}},
        "detector has 13 ",
    ),
    "generator file": (
        {"detector": {"generator": "learned", "generator_weights": "missing.npz"}},
        "missing.npz",
    ),
    "warm-up batch": (
        {"warmup": WarmupConfig(epochs=1, batch_size=27, teacher="descriptors:weights=classifier")},
        "warmup has 26 ",
    ),
    "nothing to describe with": ({"warmup": WarmupConfig(epochs=1)}, "describes nothing"),
    "no teacher": ({"warmup": WarmupConfig(epochs=1, teacher="missing")}, "--warmup_teacher must"),
    "nothing to train": ({"detector": {"epochs": 0}}, "Nothing would train the detector"),
    "classes": ({"classifier": {"recipe": "none"}}, r"recipe `none` .* has 3 classes"),
    "weights file": (
        {"network": NetworkConfig(backbone="tiny", weights="missing.npz")},
        "no weights file 'missing.npz'",
    ),
}


@pytest.mark.parametrize("part", [None, "trunk/", ""])
def test_a_classifier_is_taken_as_it_is_only_where_the_weights_have_its_head(part, tmp_path):
    path = "none"
    classifier = Classifier("tiny", 1000, 32, weights=None)
    if part is not None:
        path = str(tmp_path / "weights.npz")
        variables = named_variables(classifier).items()
        save_weights_npz(path, {name: v for name, v in variables if name.startswith(part)})
    network = NetworkConfig(backbone="tiny", weights=path)
    config = changed_config({"classifier": {"recipe": "none"}, "network": network})
    if part == "":
        taken = build_classifier(config, num_classes=1000)
        np.testing.assert_allclose(taken.get_weights()[-2], classifier.get_weights()[-2], atol=1e-3)
    else:
        with pytest.raises(RunError, match=r"nothing for .*outputs/kernel.*Give --weights"):
            build_classifier(config, num_classes=1000)


def changed_config(changes):
    """Return `small_config` with sections replaced, or, where they are dicts, changed."""
    dicts = {name: value for name, value in changes.items() if isinstance(value, dict)}
    sections = {name: value for name, value in changes.items() if name not in dicts}
    return dataclasses.replace(small_config(**dicts), **sections)


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_in_any_stage_shows_before_the_first_and_is_not_recorded(mistake, tmp_path):
    changes, message = WRONG[mistake]
    with pytest.raises((RunError, ValueError, OSError), match=message):
        runner.train(changed_config(changes), small_options(tmp_path))
    assert not list(tmp_path.glob("**/config.json"))
    assert not (tmp_path / "classifier").exists()


def test_settings_of_stages_that_are_not_asked_for_do_not_matter(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "train", lambda *arguments, **options: None)
    config = small_config(classifier={"epochs": 1}, detector={"batch_size": 27})
    runner.train(config, small_options(tmp_path), ["classifier"])
    assert load_model(tmp_path / "classifier" / "model")


def test_a_run_that_is_done_asks_for_its_weights_file_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "train", lambda *arguments, **options: None)
    weights = tmp_path / "tiny.npz"
    save_weights_npz(weights, Classifier("tiny", 3, 32, weights=None))
    network = NetworkConfig(backbone="tiny", weights=str(weights))
    config = changed_config({"classifier": {"epochs": 1}, "network": network})
    options = small_options(tmp_path / "run")
    runner.train(config, options, ["classifier"])
    weights.unlink()
    runner.train(config, options, ["classifier"])


@pytest.mark.parametrize("batch_size, watched", [(1, False), (2, True)])
def test_a_spread_over_batches_of_one_image_is_not_watched(
    batch_size, watched, tmp_path, monkeypatch
):
    stages = []
    monkeypatch.setattr(loop, "train", lambda *_, callbacks, **options: stages.append(callbacks))
    runner.train(small_config(detector={"batch_size": batch_size}), small_options(tmp_path))
    (health,) = (callback for callback in stages[-1] if isinstance(callback, HealthCheck))
    assert health.watch_spread == watched


def test_images_none_of_which_can_be_read_are_named(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(5):
            (tmp_path / "photos" / name / f"{number}.jpg").write_bytes(b"no picture")
    data = DataConfig(dataset="folder", data_dir=str(tmp_path / "photos"), image_size=32)
    config = changed_config({"classifier": {"batch_size": 2}, "data": data})
    with pytest.raises(DataError, match=r"None of the 8 training images .* read\.\n8 unreadable"):
        runner.train(config, small_options(tmp_path / "run"), ["classifier"])


def test_a_model_may_lie_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    save_model("~/run/model", Classifier("tiny", 3, 32, weights=None), "abc")
    assert (tmp_path / "run" / "model" / "model.json").exists()
    assert load_model("~/run/model").class_names == ("a", "b", "c")


def test_runs_may_lie_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    run = Runner(small_config(), small_options("~/other", reuse="~/run,~/more"))
    assert run.work_dir == str(tmp_path / "other")
    assert run.reused == [str(tmp_path / "run"), str(tmp_path / "more")]


def test_training_never_asks_for_boxes(tmp_path):
    from gc_net.datasets.creatures import Creatures

    class Boxless(Creatures):
        def truth(self, name):
            raise AssertionError("training asked for boxes")

        def mask(self, name, index):
            raise AssertionError("training asked for masks")

    dataset = Boxless(num_train=26, num_test=6, image_size=40, num_classes=3)
    short = small_config(classifier={"epochs": 1}, detector={"epochs": 1})
    runner.train(short, small_options(tmp_path), dataset=dataset)
    assert (tmp_path / "model" / "model.json").exists()
