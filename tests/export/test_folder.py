"""The small folder: half the bytes, the same predictions, and nothing of the machine it was on."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from gc_net.evaluation.files import evaluation_folder
from gc_net.export.card import find_metrics
from gc_net.export.folder import export_folder
from gc_net.localizer import load
from gc_net.training_record import TrainingRecord
from tests.models import localizer_of
from tests.prediction.models import CLASS_NAMES, noise, varied_model

RECORD = TrainingRecord(
    settings={"data": {"dataset": "cub", "data_dir": "/home/me/CUB_200_2011"}},
    environment={"command": ["/home/me/tools/train.py", "--data_dir=/home/me/CUB_200_2011"]},
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    localizer_of(varied_model(), CLASS_NAMES, record=RECORD).save(folder / "model")
    (folder / "evaluation").mkdir()
    metrics = {"corloc": 12.5, "model": "/home/me/runs/birds/model"}
    (folder / "evaluation" / "metrics.json").write_text(json.dumps(metrics))
    return folder


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    output = tmp_path_factory.mktemp("saved_models") / "birds"
    _, differences = export_folder(run, str(output), license_text="CC0")
    return output, differences


def test_it_has_about_half_the_bytes_and_predicts_the_same(run, exported):
    output, differences = exported
    before = os.path.getsize(run / "model" / "weights.npz")
    assert os.path.getsize(output / "weights.npz") < 0.7 * before
    assert max(differences.values()) < 1e-2
    images = [noise(40, 60, seed) for seed in range(3)]
    for ours, theirs in zip(load(output).predict(images), load(run).predict(images), strict=True):
        np.testing.assert_allclose(ours.box_xyxy, theirs.box_xyxy, atol=0.5)


def test_it_comes_with_its_card_and_metrics(exported):
    card = (exported[0] / "model_card.md").read_text(encoding="utf-8")
    assert "CC0" in card and "12.5" in card and "--model=birds " in card
    assert json.loads((exported[0] / "metrics.json").read_text())["corloc"] == 12.5


@pytest.mark.parametrize("output", ["birds", "models/small/birds"])
def test_the_cards_command_names_the_folder_that_was_given(run, tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    export_folder(run, output)
    assert f"--model={output} " in (tmp_path / output / "model_card.md").read_text("utf-8")


class TestMetrics:
    def write(self, folder, corloc):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metrics.json").write_text(json.dumps({"corloc": corloc}))

    def test_of_a_run_are_beside_its_model(self, tmp_path):
        self.write(tmp_path / "evaluation", 1)
        assert find_metrics(tmp_path / "model") == {"corloc": 1}

    def test_of_models_side_by_side_are_their_own(self, tmp_path):
        self.write(tmp_path / "evaluation", 1)
        self.write(Path(evaluation_folder(tmp_path / "a")), 2)
        assert find_metrics(tmp_path / "a") == {"corloc": 2}
        assert find_metrics(tmp_path / "b") is None

    @pytest.mark.parametrize("name", ["model", "cub_lite"])
    def test_that_came_with_a_model_are_found_in_its_folder(self, tmp_path, name):
        self.write(tmp_path / "evaluation", 1)
        self.write(tmp_path / name, 2)
        assert find_metrics(tmp_path / name) == {"corloc": 2}


def test_no_file_tells_where_it_was_trained(exported):
    for file in exported[0].iterdir():
        assert b"/home/me" not in file.read_bytes()
    record = json.loads((exported[0] / "model.json").read_text())["record"]
    assert record["settings"]["data"]["data_dir"] == "CUB_200_2011"
    assert record["environment"]["command"] == ["train.py", "--data_dir=CUB_200_2011"]


def test_a_folder_that_exists_is_left_alone(run, exported):
    before = (exported[0] / "weights.npz").read_bytes()
    with pytest.raises(FileExistsError, match="Name another folder"):
        export_folder(run, str(exported[0]))
    assert (exported[0] / "weights.npz").read_bytes() == before
    assert os.listdir(exported[0].parent) == ["birds"]


def test_it_has_no_versions(run, tmp_path):
    with pytest.raises(ValueError, match="no versions"):
        export_folder(run, str(tmp_path / "birds"), version=2)
