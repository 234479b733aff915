"""Prediction is measured on the same images in all its parts, with a tiny model."""

import os

import pytest

from benchmarks import memory, predict
from benchmarks.images import image_files, write_images
from benchmarks.models import write_untrained_model
from gc_net.data.decode import read_image
from gc_net.data.splits import DataError
from gc_net.datasets.folder import Folder


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    write_untrained_model(folder, "tiny", 32, num_classes=3)
    return folder


def test_a_report_has_the_speed_and_the_parts(model_dir):
    _, speed, parts = predict.report(model=model_dir, num_images=5, batch_size=4, rounds=1)
    rows = [line.split(" | ")[0] for line in speed.splitlines()[2:]]
    assert [row.strip("| ") for row in rows] == list(predict.JUDGED)
    assert len(parts.splitlines()) == 2 + len(predict.PARTS)


def test_images_that_cannot_be_read_stop_the_measurement(model_dir, tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"a\.jpg"):
        predict.measure_speed(model_dir, str(tmp_path), ["a.jpg"], confidence=False, rounds=1)


def test_memory_is_looked_at_along_the_way_and_at_the_end(model_dir):
    found = memory.measure(model_dir, num_images=20, batch_size=4, samples=5)
    assert [done for done, _ in found] == [4, 8, 12, 16, 20, 20]
    assert all(megabytes > 1 for _, megabytes in found)


def test_generated_images_are_a_dataset_with_boxes(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.images.NUM_DIFFERENT", 20)
    folder = tmp_path / "images"
    write_images(folder, 45, image_size=64)
    dataset = Folder(folder, test_fraction=0.1)
    split, truth = dataset.split("train"), dataset.truth("train")
    assert len(split) + len(dataset.split("test")) == 45
    assert len(dataset.class_names) == 10
    assert max(split.read(0).shape) == 64
    assert all(len(truth.boxes_of(index)) == 1 for index in range(len(split)))


def test_given_images_are_used_as_they_are(tmp_path):
    write_images(tmp_path / "images", 12, image_size=32)
    with image_files(tmp_path / "images", 5) as (root, files):
        assert root == str(tmp_path / "images") and len(files) == 5
        assert max(read_image(os.path.join(root, files[0])).shape) == 32
