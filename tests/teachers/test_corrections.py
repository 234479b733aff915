"""Corrected boxes as a teacher."""

import dataclasses
import json
import logging
import types

import numpy as np
import pytest

from gc_net import shapes, teachers
from gc_net.data.splits import DataError
from gc_net.datasets.folder import Folder
from gc_net.stages.run_folder import RunError
from gc_net.teachers import TEACHERS
from gc_net.teachers.base import Lesson, Placer, Targets, Teacher
from gc_net.training.data import TrainingData
from tests.datasets.samples import write_photos, write_text


@dataclasses.dataclass(frozen=True)
class Everywhere(Teacher):
    name = "everywhere"

    def placer(self, lesson):
        def place(images):
            targets = Targets.none(len(images), lesson.shape, lesson.with_masks)
            targets.coefficients[:] = 0.0
            targets.coefficients[:, :4] = 0.5, 0.5, 1.0, 1.0
            targets.weights[:] = 0.5
            return targets

        return Placer(16, place)


@pytest.fixture
def everywhere():
    with TEACHERS.register("everywhere", Everywhere):
        yield


@pytest.fixture
def split(tmp_path):
    """Eight images of 16 × 12 pixels, train/cat/000.png and so on, and two to test on."""
    write_photos(tmp_path / "data" / "train", {"cat": 4, "dog": 4})
    write_photos(tmp_path / "data" / "test", {"cat": 1, "dog": 1})
    return Folder(tmp_path / "data").split("train")


def make_lesson(split, shape="rectangle", with_masks=False):
    data = TrainingData(split, types.SimpleNamespace(image_size=16, resize_size=16), seed=0)
    return Lesson(data, shapes.get(shape), None, "none", with_masks=with_masks)


def box_file(folder, *rows):
    lines = [",".join(map(str, row)) for row in rows]
    return write_text(
        folder / "boxes.csv", "\n".join(["path,xmin,ymin,xmax,ymax,label", *lines]) + "\n"
    )


def index_of(split, file):
    (index,) = (index for index in range(len(split)) if split.file(index) == file)
    return index


@pytest.mark.parametrize("shape", ["rectangle", "rotated_ellipse"])
def test_corrected_images_get_their_box_and_others_what_the_source_says(
    shape, everywhere, split, tmp_path
):
    boxes = box_file(
        tmp_path,
        ("train/cat/001.png", 4, 3, 12, 9, "cat"),
        ("train/dog/002.png", 0, 0, 2, 2, "dog"),
        ("train/dog/002.png", 8, 0, 16, 6, "dog"),  # the larger one counts
        ("test/dog/000.png", 0, 0, 4, 4, "dog"),  # which is not trained on
    )
    lesson = make_lesson(split, shape, with_masks=True)
    targets = teachers.get(f"corrections:file={boxes}:source=everywhere").targets(lesson)
    cat, dog = index_of(split, "train/cat/001.png"), index_of(split, "train/dog/002.png")
    np.testing.assert_allclose(targets.coefficients[cat, :4], [0.5, 0.5, 0.5, 0.5])
    np.testing.assert_allclose(targets.coefficients[dog, :4], [0.75, 0.25, 0.5, 0.5])
    assert (targets.coefficients[:, 4:] == 0).all()
    assert targets.masks[dog, 7, 21] == 255 and targets.masks[dog, 21, 7] == 0
    others = np.setdiff1d(np.arange(8), [cat, dog])
    assert (targets.coefficients[others, 2] == 1).all()
    assert (targets.weights[others] == 0.5).all() and (targets.weights[[cat, dog]] == 1).all()


def test_it_can_teach_corrected_images_alone(split, tmp_path):
    boxes = box_file(tmp_path, ("cat/000.png", 0, 0, 8, 12, ""))
    teacher = teachers.get(f"corrections:file={boxes}:source=none")
    targets = teacher.targets(make_lesson(split))
    assert targets.indices.tolist() == [index_of(split, "train/cat/000.png")]


def test_it_says_that_it_is_no_longer_weak_supervision(everywhere, split, tmp_path, caplog):
    boxes = box_file(tmp_path, ("train/cat/001.png", 4, 3, 12, 9, "cat"))
    with caplog.at_level(logging.WARNING, "gc_net"):
        teachers.get(f"corrections:file={boxes}:source=everywhere").check(make_lesson(split))
    assert "boxes of 1 of 8 training images" in caplog.text
    assert "no longer weak supervision" in caplog.text


def test_what_it_cannot_teach_from_is_an_error_that_says_why(everywhere, split, tmp_path):
    lesson = make_lesson(split)
    with pytest.raises(RunError, match="needs a file of boxes"):
        teachers.get("corrections").check(lesson)
    with pytest.raises(DataError, match="does not exist"):
        teachers.get(f"corrections:file={tmp_path / 'no.csv'}").check(lesson)
    boxes = box_file(tmp_path, ("test/dog/000.png", 0, 0, 4, 4, "dog"))
    with pytest.raises(DataError, match="None of the 1 boxes"):
        teachers.get(f"corrections:file={boxes}").check(make_lesson(split))
    boxes = box_file(tmp_path, ("train/dog/000.png", 0, 0, 4, 4, "cat"))
    with pytest.raises(DataError, match=r"'cat' of 'train/dog/000\.png' is not the class"):
        teachers.get(f"corrections:file={boxes}").check(make_lesson(split))
    # What others cut or learn from must have maps.
    with pytest.raises(RunError, match="has none"):
        teachers.get("silhouettes:source=corrections").check(lesson)


def test_a_label_studio_export_is_read(split, tmp_path):
    value = {"x": 25, "y": 25, "width": 50, "height": 50, "rotation": 0, "rectanglelabels": ["cat"]}
    result = {
        "type": "rectanglelabels", "value": value, "original_width": 16, "original_height": 12,
    }  # fmt: skip
    tasks = [
        {
            "data": {"image": "/data/local-files/?d=train/cat/001.png"},
            "annotations": [{"result": [result]}],
        }
    ]
    boxes = write_text(tmp_path / "export.json", json.dumps(tasks))
    targets = teachers.get(f"corrections:file={boxes}:source=none").targets(make_lesson(split))
    (index,) = targets.indices
    np.testing.assert_allclose(targets.coefficients[index], [0.5, 0.5, 0.5, 0.5])
