"""`--method`: the classifier of another method, trained by the runner."""

import dataclasses
import json

import pytest
import tensorflow as tf

from gc_net.methods import METHODS, has
from gc_net.methods.cam import CAM
from gc_net.methods.training import ClassifierTraining
from gc_net.saving import load_model, trained_method
from gc_net.settings import Settings
from gc_net.stages.classifier import ClassifierConfig
from gc_net.stages.run_folder import RunError
from gc_net.stages.runner import Runner, train
from gc_net.training import loop
from tests.training.samples import assert_same_weights, small_config, small_options


def config(method, **changes) -> Settings:
    return small_config(classifier={"method": method, **changes})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    work_dir = tmp_path_factory.mktemp("has")
    train(config("has"), small_options(work_dir))
    return work_dir


def test_a_method_trains_its_classifier_and_no_detector(finished):
    assert not (finished / "detector").exists()
    assert_same_weights(finished / "model", finished / "classifier" / "model")
    record = json.loads((finished / "classifier" / "config.json").read_text())
    assert record["config"]["classifier"]["method"] == "has"


def test_a_stopped_training_ends_with_the_same_weights(finished, tmp_path, monkeypatch):
    class Stopped(Exception):
        pass

    steps = []

    def stopping(model):
        take_step = original(model)

        def step(iterator):
            steps.append(model)
            if len(steps) == 6:
                raise Stopped
            return take_step(iterator)

        return step

    original = loop.distributed_step
    with monkeypatch.context() as patch:
        patch.setattr(loop, "distributed_step", stopping)
        with pytest.raises(Stopped):
            train(config("has"), small_options(tmp_path))
    assert isinstance(steps[0], has.HiddenPatches)
    train(config("has"), small_options(tmp_path))
    assert_same_weights(tmp_path / "classifier" / "model", finished / "classifier" / "model")


def test_another_method_does_not_go_on_with_its_folder(finished):
    with pytest.raises(RunError, match=r"classifier\.method: 'has' there, 'cutmix' now"):
        train(config("cutmix"), small_options(finished))


def test_a_method_has_the_head_that_it_names(tmp_path):
    train(config("acol", epochs=1), small_options(tmp_path))
    assert load_model(tmp_path / "classifier" / "model").model.head_name == "acol"


def test_an_unknown_method_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"`method` must be gc_net, or one of .*cutmix"):
        ClassifierConfig(method="cutmax")


class Dimmed(ClassifierTraining):
    """A training for the test below: images have a tenth of their contrast."""

    def augment(self, normalized):
        return 0.1 * normalized, {"contrast": tf.constant(0.1)}


class Dim(CAM):
    name = "dim"
    title = "Dim"
    training = Dimmed


def test_a_method_that_is_registered_is_trained_by_its_name(tmp_path, monkeypatch):
    trained = []
    monkeypatch.setattr(loop, "train", lambda model, *args, **kwargs: trained.append(model))
    with METHODS.register("dim", Dim):
        known = ClassifierConfig.__dataclass_fields__["method"].metadata["known"]
        assert "dim" in known  # which --help lists
        train(config("dim"), small_options(tmp_path))
    assert isinstance(trained[0], Dimmed)


def test_methods_that_train_nothing_of_their_own_share_their_classifier(tmp_path):
    train(config("cam", epochs=1), small_options(tmp_path / "cam"))
    options = small_options(tmp_path / "other", reuse=str(tmp_path / "cam"))
    train(config("ddt", epochs=1), options)
    assert not (tmp_path / "other" / "classifier").exists()
    assert trained_method(tmp_path / "cam" / "model") == "cam"
    assert trained_method(tmp_path / "other" / "model") == "ddt"
    # GC-Net's own is the same, and that of HaS is another.
    options = small_options(tmp_path / "gc_net", reuse=str(tmp_path / "cam"))
    with Runner(config("gc_net", epochs=1), options) as runner:
        assert runner.is_done(runner.units["classifier"])
    with Runner(config("has", epochs=1), options) as runner:
        assert not runner.is_done(runner.units["classifier"])


def test_a_network_that_a_method_does_not_allow_is_refused_before_training(tmp_path):
    given = small_config(classifier={"method": "has"})
    network = dataclasses.replace(given.network, backbone="vgg16")
    with pytest.raises(RunError, match="--method=has cannot be used: class activation maps need"):
        train(dataclasses.replace(given, network=network), small_options(tmp_path))
    assert not (tmp_path / "classifier").exists()
