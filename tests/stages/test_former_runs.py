"""Folders of runs that an earlier version has begun: resumed, or refused in plain words."""

import copy
import json
import shutil

import pytest

from gc_net.stages import run_folder, runner
from gc_net.stages.run_folder import RunError
from tests.training.samples import assert_same_weights, small_config, small_options

CONFIG = {"classifier": {"epochs": 1}, "detector": {"epochs": 1, "loss_weights": "area=2"}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    work_dir = tmp_path_factory.mktemp("finished")
    runner.train(small_config(**CONFIG), small_options(work_dir))
    return work_dir


def made_former(settings):
    """Return settings as an earlier version recorded them."""
    settings = copy.deepcopy(settings)
    if "detector" in settings:
        detector = settings["detector"]
        del detector["loss_weights"], detector["parametrization"], detector["steps"]
        detector |= {"alpha": 2.0, "beta": None, "gamma": None, "look": 0.0}
        settings.pop("generator", None)
    del settings["classifier"]["steps"]
    return settings


@pytest.fixture
def former(finished, tmp_path):
    """The folder of a finished run, as an earlier version would have left it."""
    work_dir = tmp_path / "former"
    shutil.copytree(finished, work_dir)
    for path in work_dir.glob("*/config.json"):
        record = json.loads(path.read_text())
        settings = made_former(record["config"])
        path.write_text(json.dumps({"config": settings, "environment": record["environment"]}))
    shutil.rmtree(work_dir / "detector" / "model")
    (work_dir / "detector" / "generator.npz").unlink()
    return work_dir


def test_one_that_was_stopped_is_resumed(former, finished):
    shutil.rmtree(former / "model")
    runner.train(small_config(**CONFIG), small_options(former))
    assert_same_weights(former / "model", finished / "model")


def test_settings_that_differ_are_named_as_they_are_called_now(former):
    shutil.rmtree(former / "model")
    other = small_config(**{**CONFIG, "detector": {"epochs": 1, "loss_weights": "area=3"}})
    with pytest.raises(RunError, match=r"detector\.loss_weights\.area: 2 there, 3 now"):
        runner.train(other, small_options(former))
    seamless = {**CONFIG["detector"], "parametrization": "seamless"}
    with pytest.raises(RunError, match=r"parametrization: 'sigmoid' there, 'seamless' now"):
        runner.train(small_config(**{**CONFIG, "detector": seamless}), small_options(former))


def test_one_that_was_finished_is_refused_with_what_to_do(former, finished, tmp_path):
    with pytest.raises(RunError) as caught:
        runner.train(small_config(**CONFIG), small_options(former))
    said = str(caught.value)
    assert "an earlier version has finished" in said and f"--reuse={former}" in said
    options = small_options(tmp_path / "next", reuse=str(former))
    runner.train(small_config(**CONFIG), options)
    assert not (tmp_path / "next" / "classifier").exists()
    assert_same_weights(tmp_path / "next" / "model", finished / "model")


def test_all_settings_of_an_earlier_version_have_a_name_now():
    config = small_config().resolved().to_dict()
    former = copy.deepcopy(config)
    detector = former["detector"]
    del detector["loss_weights"], detector["parametrization"], former["second_look"]
    detector |= {"alpha": 2.5, "beta": 1.0, "gamma": None, "look": 1.5}
    former["generator"] |= {"shape": "rotated_ellipse", "network": "implicit", "seed": 0}
    former["namer"] = former.pop("second_classifier")
    expected = copy.deepcopy(config)
    expected["detector"]["loss_weights"] = "object=1,area=2.5"
    expected["second_look"] = 1.5
    assert run_folder.differences(run_folder.renamed(former), expected) == []


def test_classifiers_of_another_seed_are_told():
    record = {"seed": 3, "classifier_run": {"seed": 4}}
    assert run_folder.differences(run_folder.renamed(record), {"seed": 3}) == [
        "seed of the classifier: 4 there, None now"
    ]
    record["classifier_run"]["seed"] = 3
    assert run_folder.differences(run_folder.renamed(record), {"seed": 3}) == []
