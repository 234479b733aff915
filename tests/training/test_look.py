"""The stage that learns the second look: what it is shown, what it changes, what it leaves."""

import dataclasses
import os

import numpy as np
import pytest

from gc_net.datasets import crops, transforms
from gc_net.datasets.creatures import Creatures
from gc_net.saving import load_model
from gc_net.training import chain as chains
from gc_net.training import look, loop
from gc_net.training.callbacks import read_log
from gc_net.training.config import LookConfig
from gc_net.training.data import TrainingData
from gc_net.training.run import RunError
from tests.training.samples import assert_same_weights, small_config, small_options

LOOK = LookConfig(side=0.8, epochs=2, batch_size=6)


def looking(**changes):
    return small_config(detector={"epochs": 1}, look=dataclasses.replace(LOOK, **changes))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run without the stage, then the same run with it."""
    work_dir = tmp_path_factory.mktemp("finished")
    chains.train(looking(epochs=0), small_options(work_dir))
    before = load_model(work_dir / "model")
    chains.train(looking(), small_options(work_dir))
    return work_dir, before


def split_of(count=5):
    return Creatures(num_train=count, num_test=1, image_size=40, num_classes=3).split("train")


def test_every_image_is_shown_as_a_whole_and_close_up():
    config = looking()
    split = split_of()
    boxes = np.array([[0.1, 0.2, 0.5, 0.5]] * len(split), np.float32)
    data = TrainingData(split, config.data, seed=0)
    both, indices = look.close_up_data(data, boxes, config)
    np.testing.assert_array_equal(indices, np.arange(10))
    np.testing.assert_array_equal(both.split.labels, [*split.labels, *split.labels])
    for index in range(5):
        original = split.read(index)
        np.testing.assert_array_equal(both.split.read(index), original)
        # 0.8 of the box's longer side of 0.4, and what a random window leaves out of 37 pixels:
        # a square of 0.37 around (0.3, 0.35).
        height, width = original.shape[:2]
        rows = slice(round((0.35 - 0.185) * height), round((0.35 + 0.185) * height))
        columns = slice(round((0.3 - 0.185) * width), round((0.3 + 0.185) * width))
        expected = original[rows, columns]
        np.testing.assert_array_equal(both.split.read(5 + index), expected)


def test_batches_hold_whole_images_and_close_ups_squashed_alike():
    config = looking()
    split = split_of()
    boxes = np.random.default_rng(0).uniform(0, 1, (5, 2, 2))
    boxes = np.concatenate([boxes.min(axis=1), boxes.max(axis=1)], axis=-1).astype(np.float32)
    data = TrainingData(split, config.data, seed=0)
    both, indices = look.close_up_data(data, boxes, config)
    batches = both.batches(5, indices, epoch=3, with_index=True)
    seen = {}
    for images, _, index in batches:
        seen |= dict(zip(index.numpy().tolist(), images.numpy(), strict=True))
    assert set(seen) == set(range(10))
    region = crops.regions(boxes, LOOK.side * 37 / 32)
    for index, image in seen.items():
        original = split.read(index % 5)
        shown = original if index < 5 else crops.crop(original, region[index - 5])
        window = transforms.random_window(37, 32, seed=0, epoch=3, index=index)
        expected = transforms.take(transforms.squash(shown, 37), window, 32)
        np.testing.assert_array_equal(image, expected)


def test_images_without_a_box_are_left_out_both_ways():
    config = looking()
    boxes = np.tile(np.float32([0.1, 0.1, 0.6, 0.6]), (5, 1))
    boxes[2] = np.nan
    data = TrainingData(split_of(), config.data, seed=0)
    _, indices = look.close_up_data(data, boxes, config)
    assert indices.tolist() == [0, 1, 3, 4, 5, 6, 8, 9]


def test_the_stage_changes_the_classifier_and_nothing_else(finished):
    work_dir, before = finished
    after = load_model(work_dir / "model")
    assert before.model.look == after.model.look == LOOK.side
    for part in ("detector", "generator"):
        old, new = getattr(before.model, part), getattr(after.model, part)
        for a, b in zip(old.get_weights(), new.get_weights(), strict=True):
            np.testing.assert_array_equal(a, b)
    old, new = before.model.classifier.get_weights(), after.model.classifier.get_weights()
    assert any(not np.array_equal(a, b) for a, b in zip(old, new, strict=True))
    assert before.info["config"]["look"]["epochs"] == 0
    assert after.info["config"]["look"]["epochs"] == 2
    assert [row["epoch"] for row in read_log(work_dir / "look" / "log.csv")] == [0, 1]


def test_the_close_ups_are_those_of_the_shapes_that_the_model_places(finished):
    work_dir, before = finished
    with np.load(work_dir / "look" / look.BOXES_FILE) as file:
        found = file["boxes_rel_xyxy"]
    split = split_of(26)
    images = np.stack([transforms.squash(split.read(index), 32) for index in range(26)])
    expected = before.model(images.astype(np.float32))["boxes"]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_layers_that_are_not_to_be_trained_stay_as_they_are(tmp_path):
    config = looking()
    network = dataclasses.replace(config.network, train_from="conv2")
    config = dataclasses.replace(config, network=network)
    chains.train(config, small_options(tmp_path))
    old = load_model(tmp_path / "classifier" / "model").model.get_weights()
    new = load_model(tmp_path / "model").model.classifier.get_weights()
    same = [np.array_equal(a, b) for a, b in zip(old, new, strict=True)]
    assert same[0] and not same[-1]


def test_a_run_stopped_while_it_learns_the_look_ends_with_the_same_weights(
    finished, tmp_path, monkeypatch
):
    class Killed(BaseException):
        pass

    save, saved = loop._save, []

    def kill_once(model, checkpoints, done, *finished):
        save(model, checkpoints, done, *finished)
        saved.append(os.path.basename(os.path.dirname(checkpoints.folder)))
        if saved.count("look") == 2:
            raise Killed

    monkeypatch.setattr(loop, "_save", kill_once)
    with pytest.raises(Killed):
        chains.train(looking(), small_options(tmp_path))
    # What is there meanwhile is the model before the stage, and says so.
    assert load_model(tmp_path / "model").info["config"]["look"]["epochs"] == 0
    chains.train(looking(), small_options(tmp_path))
    assert_same_weights(finished[0] / "model", tmp_path / "model")


def test_other_settings_of_the_stage_are_refused(finished):
    with pytest.raises(RunError, match=r"look\.learning_rate: 0.0003 there, 0.001 now"):
        chains.train(looking(learning_rate=1e-3), small_options(finished[0]))
    with pytest.raises(RunError, match=r"look\.side: 0.8 there, 1.5 now"):
        chains.train(looking(side=1.5), small_options(finished[0]))


def test_without_a_detector_there_is_nothing_to_learn_from(tmp_path):
    chains.train(looking(), small_options(tmp_path), ["classifier"])
    with pytest.raises(RunError, match=r"no model in .* Train the detector first"):
        chains.train(looking(), small_options(tmp_path), ["look"])


def test_epochs_without_a_side_are_refused():
    with pytest.raises(ValueError, match=r"epochs=2, side=0\.0\. Give a side"):
        LookConfig(epochs=2)
