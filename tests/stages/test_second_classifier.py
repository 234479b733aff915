"""The second classifier: what it is shown, what it changes in the model, and how it names."""

import dataclasses
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

import gc_net
from gc_net.classifier import Classifier
from gc_net.data import crops, transforms
from gc_net.datasets.creatures import Creatures
from gc_net.losses.classes import ClassLoss
from gc_net.saving import load_model
from gc_net.stages import runner, second_classifier, stage_run
from gc_net.stages.run_folder import RunError
from gc_net.stages.second_classifier import SecondClassifierConfig
from gc_net.training import loop
from gc_net.training.callbacks import read_log
from gc_net.training.data import TrainingData
from gc_net.training.masked_classifier import augmentation
from tests.training.samples import assert_same_weights, small_config, small_options

SETTINGS = SecondClassifierConfig(epochs=2, image_size=48, batch_size=6)
LOOK = 0.8


def naming(**changes):
    settings = dataclasses.replace(SETTINGS, **changes)
    return small_config(detector={"epochs": 1}, second_look=LOOK, second_classifier=settings)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run without the stage, then the same run with it."""
    work_dir = tmp_path_factory.mktemp("finished")
    runner.train(naming(epochs=0), small_options(work_dir))
    before = gc_net.load(work_dir / "model")
    shutil.copytree(work_dir, work_dir / "before")
    runner.train(naming(), small_options(work_dir))
    return work_dir, before


@pytest.fixture
def without(finished, tmp_path):
    """A copy of that run, as it was without the stage."""
    return shutil.copytree(finished[0] / "before", tmp_path / "without")


def split_of(count=5):
    return Creatures(num_train=count, num_test=1, image_size=40, num_classes=3).split("train")


def test_batches_hold_windows_of_close_ups_at_the_second_classifiers_own_size():
    config = naming()
    split = split_of()
    boxes = np.random.default_rng(0).uniform(0, 1, (5, 2, 2))
    boxes = np.concatenate([boxes.min(axis=1), boxes.max(axis=1)], axis=-1).astype(np.float32)
    data = TrainingData(split, config.data, seed=0)
    close = second_classifier.close_up_data(data, boxes, config)
    seen = {}
    for images, labels, index in close.batches(5, epoch=3, with_index=True):
        np.testing.assert_array_equal(labels, split.labels[index])
        seen |= dict(zip(index.numpy().tolist(), images.numpy(), strict=True))
    assert set(seen) == set(range(5))
    # 48 pixels are a window of 55: what is cut out is larger by as much.
    region = crops.regions(boxes, LOOK * 55 / 48)
    windows = transforms.random_windows(5, 55, 48, seed=0, epoch=3)
    for index, image in seen.items():
        shown = crops.crop(split.read(index), region[index])
        window = transforms.window_of(windows[index])
        expected = transforms.take(transforms.squash(shown, 55), window, 48)
        np.testing.assert_array_equal(image, expected)


def test_the_model_gets_a_second_classifier_and_nothing_else_changes(finished):
    work_dir, before = finished
    after = gc_net.load(work_dir / "model")
    assert before.second_classifier is None and before.close_up_classifier is before.classifier
    assert after.close_up_classifier is after.second_classifier
    assert after.second_classifier.image_size == 48 and after.classifier.image_size == 32
    assert before.second_look == after.second_look == LOOK
    for part in ("detector", "generator", "classifier"):
        old, new = getattr(before, part), getattr(after, part)
        for a, b in zip(old.get_weights(), new.get_weights(), strict=True):
            np.testing.assert_array_equal(a, b)
    trained = load_model(work_dir / "second_classifier" / "model").model
    for a, b in zip(trained.get_weights(), after.second_classifier.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert [row["epoch"] for row in read_log(work_dir / "second_classifier" / "log.csv")] == [0, 1]


def test_the_second_classifier_learns_from_the_shapes_that_the_model_places(finished):
    work_dir, before = finished
    with np.load(work_dir / "second_classifier" / second_classifier.BOXES_FILE) as file:
        found = file["boxes_rel_xyxy"]
    split = split_of(26)
    # The central 32 of 37 pixels, as evaluation and prediction see them.
    images = np.stack([transforms.squash(split.read(index), 37) for index in range(26)])
    shape, windows = before.shape, images[:, 2:34, 2:34].astype(np.float32)
    expected = np.asarray(shape.boxes(before.detector(windows)))
    np.testing.assert_allclose(found, (expected * 32 + 2) / 37, atol=1e-5)


def test_predictions_take_the_mean_of_the_classifier_and_the_second_one(finished):
    work_dir, _ = finished
    localizer = gc_net.load(work_dir)
    image = split_of(1).read(0)
    (found,) = localizer.predict([image], top_k=3)
    squashed = transforms.squash(image, 37)[None].astype(np.float32)
    window = squashed[:, 2:34, 2:34]
    boxes = np.asarray(localizer.shape.boxes(localizer.detector(window)))
    region = crops.regions((boxes * 32 + 2) / 37, LOOK)[0]
    close_up = transforms.squash(crops.crop(image, region), 48)[None].astype(np.float32)
    first = tf.nn.softmax(localizer.classifier(window))
    second = tf.nn.softmax(localizer.second_classifier(close_up))
    expected = np.asarray((first + second) / 2)[0]
    for score in found.classes:
        np.testing.assert_allclose(score.probability, expected[score.id], atol=1e-5)


def test_layers_that_are_not_to_be_trained_stay_as_they_are(tmp_path):
    config = naming(epochs=1)
    network = dataclasses.replace(config.network, train_from="conv2")
    config = dataclasses.replace(config, network=network)
    runner.train(config, small_options(tmp_path))
    log = read_log(tmp_path / "second_classifier" / "log.csv")
    assert len(log) == 1
    weights = gc_net.load(tmp_path / "model").second_classifier.get_weights()
    # The same seed makes the same classifier, before its training.
    with runner.Runner(config, small_options(tmp_path)) as run:
        stage_run.StageRun(run, run.units["second_classifier"]).set_seed()
        untrained = second_classifier.untrained(config, 3, SETTINGS.image_size).get_weights()
    same = [np.array_equal(a, b) for a, b in zip(untrained, weights, strict=True)]
    assert same[0] and not same[-1]


def test_a_run_stopped_while_the_second_classifier_learns_ends_with_the_same_weights(
    finished, without, monkeypatch
):
    class Killed(BaseException):
        pass

    save, saved = loop._save, []

    def kill_once(model, checkpoints, done, *finished):
        save(model, checkpoints, done, *finished)
        saved.append(os.path.basename(os.path.dirname(checkpoints.folder)))
        if saved.count("second_classifier") == 2:
            raise Killed

    monkeypatch.setattr(loop, "_save", kill_once)
    with pytest.raises(Killed):
        runner.train(naming(), small_options(without))
    assert gc_net.load(without / "model").second_classifier is None
    runner.train(naming(), small_options(without))
    assert_same_weights(finished[0] / "model", without / "model")


def test_a_run_stopped_between_the_two_files_of_its_model_goes_on(finished, without, tmp_path):
    shutil.copytree(finished[0], tmp_path / "run")
    # The weights are those with the second classifier, the record is the one before.
    shutil.copy(without / "model/model.json", tmp_path / "run/model/model.json")
    assert gc_net.load(tmp_path / "run" / "model").second_classifier is None
    runner.train(naming(), small_options(tmp_path / "run"))
    assert gc_net.load(tmp_path / "run" / "model").second_classifier is not None
    assert_same_weights(finished[0] / "model", tmp_path / "run" / "model")


def test_a_second_classifier_that_is_trained_anew_takes_the_place_of_the_one_before(
    finished, tmp_path
):
    shutil.copytree(finished[0], tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "second_classifier")
    runner.train(naming(epochs=1), small_options(tmp_path / "run"), ["second_classifier"])
    trained = load_model(tmp_path / "run" / "second_classifier" / "model").model
    for one, other in (
        (trained, True),
        (load_model(finished[0] / "second_classifier" / "model").model, False),
    ):
        placed = gc_net.load(tmp_path / "run" / "model").second_classifier
        same = all(map(np.array_equal, one.get_weights(), placed.get_weights()))
        assert same == other


def test_settings_that_the_model_was_not_trained_with_are_refused(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "second_classifier")
    before = (tmp_path / "run" / "model" / "model.json").read_bytes()
    config, options = naming(), small_options(tmp_path / "run")
    for changes, message in (
        ({"resize_size": 60}, r"resize_size: 0 there, 60 now"),
        ({"dataset_options": "num_classes=4,num_train=26,num_test=4"}, "training_images: "),
    ):
        data = dataclasses.replace(config.data, **changes)
        other = dataclasses.replace(config, data=data)
        with pytest.raises(RunError, match=message):
            runner.train(other, options, ["second_classifier"])
    assert (tmp_path / "run" / "model" / "model.json").read_bytes() == before
    assert not (tmp_path / "run" / "second_classifier").exists()


def test_a_look_can_come_with_the_second_classifier(finished, tmp_path):
    first = small_config(detector={"epochs": 1})
    before = str(finished[0] / "before")
    runner.train(first, small_options(tmp_path, reuse=before), ["detector"])
    assert gc_net.load(tmp_path / "model").second_look == 0
    runner.train(naming(epochs=1), small_options(tmp_path, reuse=before), ["second_classifier"])
    model = gc_net.load(tmp_path / "model")
    assert model.second_look == LOOK and model.second_classifier is not None


def test_for_no_epochs_it_is_refused_where_it_is_all_there_is(finished):
    with pytest.raises(RunError, match="Give --second_classifier_epochs"):
        runner.train(naming(epochs=0), small_options(finished[0]), ["second_classifier"])


def test_without_it_in_the_settings_the_model_does_without(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path / "run")
    runner.train(naming(epochs=0), small_options(tmp_path / "run"))
    assert gc_net.load(tmp_path / "run" / "model").second_classifier is None
    runner.train(naming(), small_options(tmp_path / "run"))
    assert_same_weights(finished[0] / "model", tmp_path / "run" / "model")


@pytest.mark.parametrize("error", [ValueError, RuntimeError])
def test_one_that_cannot_be_built_is_refused_before_any_training(tmp_path, monkeypatch, error):
    def untrained(config, num_classes, image_size):
        raise error("at least 75 pixels")

    monkeypatch.setattr(stage_run, "untrained", untrained)
    with pytest.raises((RunError, ValueError), match="at least 75 pixels"):
        runner.train(naming(), small_options(tmp_path))
    assert not (tmp_path / "classifier").exists()


def test_other_settings_of_the_second_classifier_are_refused(finished):
    with pytest.raises(RunError, match=r"\.learning_rate: 0.0006 there, 0.001 now"):
        runner.train(naming(learning_rate=1e-3), small_options(finished[0]))


def test_alone_it_trains_what_it_needs_first(finished, tmp_path):
    runner.train(naming(), small_options(tmp_path), ["second_classifier"])
    assert_same_weights(finished[0] / "model", tmp_path / "model")


def test_a_second_classifier_without_a_look_is_refused():
    with pytest.raises(ValueError, match="2 epochs of the second classifier, and no second look"):
        small_config(second_classifier=SETTINGS)


def test_a_second_classifier_must_know_the_same_classes(finished):
    _, model = finished
    other = Classifier("tiny", num_classes=5, image_size=48, weights=None, name="second_classifier")
    with pytest.raises(ValueError, match=r"classes of the first. Received: 5 and 3"):
        model.replace(second_classifier=other)


def test_a_smoothed_label_is_shared_with_all_classes():
    logits = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    labels = np.array([0, 3, 4, 1])
    shared = 0.2 / 5 + 0.8 * np.eye(5)[labels]
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    expected = -(shared * log_probabilities).sum(axis=1).mean()
    np.testing.assert_allclose(ClassLoss(0.2)(labels, logits), expected, rtol=1e-5)
    restored = ClassLoss.from_config(ClassLoss(0.2).get_config())
    np.testing.assert_allclose(restored(labels, logits), expected, rtol=1e-5)


def test_augmentation_moves_and_lights_images_in_training_only():
    split = split_of(3)
    images = np.stack([transforms.squash(split.read(index), 40) for index in range(3)])
    layer = augmentation(1.0, seed=5)
    np.testing.assert_allclose(layer(images, training=False), images)
    first, second = (np.asarray(layer(images, training=True)) for _ in range(2))
    assert first.shape == images.shape and first.dtype == np.float32
    assert first.min() >= 0 and first.max() <= 255
    assert np.abs(first - images).mean() > 2 and np.abs(first - second).mean() > 2
    again = np.asarray(augmentation(1.0, seed=5)(images, training=True))
    np.testing.assert_allclose(again, first, atol=1e-3)
    assert augmentation(0.0, seed=5) is None


def test_contrast_goes_both_ways_and_not_along_with_brightness():
    random = np.random.default_rng(0)
    images = random.uniform(110, 140, (512, 8, 8, 3)).astype(np.float32)
    layers = augmentation(1.0, seed=5).layers
    _, brightness, contrast = layers
    lighter = np.asarray(brightness(images, training=True)).mean(axis=(1, 2, 3)) - images.mean(
        axis=(1, 2, 3)
    )
    contrasted = np.asarray(contrast(images, training=True))
    stronger = contrasted.std(axis=(1, 2, 3)) / images.std(axis=(1, 2, 3))
    assert -26 < lighter.min() < -15 and 15 < lighter.max() < 26
    assert 0.78 < stronger.min() < 0.85 and 1.15 < stronger.max() < 1.22
    assert abs(np.corrcoef(lighter, stronger)[0, 1]) < 0.2
