"""Records of settings: what makes a run another one, and what does not."""

import dataclasses
import os

import pytest

from gc_net.stages import run_folder
from gc_net.stages.config import DataConfig, TrainConfig
from gc_net.stages.run_folder import RunError


def recorded(**data):
    return TrainConfig(data=DataConfig(**data)).to_dict()


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"dataset_options": "test_fraction=0.1"}, {"dataset_options": " test_fraction=0.10"}),
        ({"dataset_options": ""}, {"dataset_options": "boxes=mine.csv"}),
        ({"dataset_options": "boxes=a.csv"}, {"dataset_options": "boxes=b=c.csv"}),
        ({"data_dir": "photos"}, {"data_dir": "photos/"}),
    ],
)
def test_what_changes_no_weight_makes_no_other_run(before, now):
    assert run_folder.differences(recorded(**before), recorded(**now)) == []


@pytest.mark.parametrize(
    ("now", "line"),
    [
        ({"dataset_options": "test_fraction=0.3"}, "test_fraction: None there, 0.3 now"),
        ({"image_size": 96}, "data.image_size: 128 there, 96 now"),
        ({"dataset": "cub", "dataset_options": "boxes=x"}, "dataset_options.boxes: None there"),
    ],
)
def test_all_else_does(now, line, tmp_path):
    run_folder.write_settings(str(tmp_path), recorded())
    with pytest.raises(RunError, match=line.replace(".", r"\.")):
        run_folder.check_settings(str(tmp_path), recorded(**now))


def test_a_setting_of_a_later_version_had_its_default():
    before = recorded()
    del before["classifier"]["mask_inverted"], before["mixed_precision"]
    assert run_folder.differences(before, recorded()) == []
    other = TrainConfig()
    classifier = dataclasses.replace(other.classifier, mask_inverted=0.5)
    other = dataclasses.replace(other, classifier=classifier).to_dict()
    expected = ["classifier.mask_inverted: 0.0 there, 0.5 now"]
    assert run_folder.differences(before, other) == expected


def test_other_settings_are_refused_and_all_that_differ_are_listed(tmp_path):
    folder = str(tmp_path)
    settings = {"seed": 1, "detector": {"epsilon": None, "shape": "rectangle"}}
    run_folder.write_settings(folder, settings)
    run_folder.check_settings(folder, settings)
    with pytest.raises(RunError) as caught:
        other = {"seed": 2, "detector": {"epsilon": 4.0, "shape": "rectangle"}}
        run_folder.check_settings(folder, other)
    message = str(caught.value)
    assert "seed: 1 there, 2 now" in message
    assert "detector.epsilon: None there, 4.0 now" in message
    assert "shape" not in message


def test_what_is_no_known_setting_counts_as_a_difference_when_new_or_gone(tmp_path):
    run_folder.write_settings(str(tmp_path), {"a": 1})
    with pytest.raises(RunError, match="b: None there, 2 now"):
        run_folder.check_settings(str(tmp_path), {"a": 1, "b": 2})
    with pytest.raises(RunError, match="a: 1 there, None now"):
        run_folder.check_settings(str(tmp_path), {})


def test_a_section_that_a_later_version_added_has_its_defaults_in_older_records():
    older, newer = TrainConfig().to_dict(), TrainConfig().to_dict()
    del older["second_classifier"]
    assert run_folder.differences(older, newer) == []
    newer["second_classifier"]["epochs"] = 3
    expected = ["second_classifier.epochs: 0 there, 3 now"]
    assert run_folder.differences(older, newer) == expected


def test_a_part_of_a_section_is_not_filled_up():
    """The warm-up's record holds but a few of the detector's settings."""
    part = {"detector": {"shape": "rectangle"}}
    assert run_folder.differences(part, part) == []


def test_a_setting_that_a_later_version_dropped_counts_as_a_difference():
    config = TrainConfig().to_dict()
    older = {**config, "warmup": {**config["warmup"], "dropped": 2}}
    assert run_folder.differences(older, config) == ["warmup.dropped: 2 there, None now"]


def test_the_data_folder_may_be_written_in_another_way(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    photos = tmp_path / "photos"
    before = {"data": {"data_dir": str(photos)}}
    for same in (f"{photos}/", "~/photos", os.path.relpath(photos)):
        assert run_folder.differences(before, {"data": {"data_dir": same}}) == []
    for other in (None, str(tmp_path)):
        (line,) = run_folder.differences(before, {"data": {"data_dir": other}})
        assert line.startswith("data.data_dir: ") and "photos' there" in line


def test_the_record_tells_versions_and_command(tmp_path):
    run_folder.write_settings(str(tmp_path), {"a": 1})
    record = run_folder.read_json(str(tmp_path / "config.json"))
    assert record["config"] == {"a": 1}
    assert {"tensorflow", "keras", "numpy"} <= record["environment"]["packages"].keys()
    assert record["environment"].keys() >= {"gc_net", "git_revision", "python", "command"}
