"""Levels of heat maps, chosen by a teacher's boxes of training images and by nothing else."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf

from gc_net import shapes
from gc_net.evaluation.evaluate import evaluate
from gc_net.evaluation.levels import choose_levels
from gc_net.methods.base import HeatMapMethod
from gc_net.methods.localizer import MethodLocalizer
from gc_net.teachers import TEACHERS
from gc_net.teachers.base import Placer, Targets, Teacher
from tests.evaluation.models import CLASS_NAMES, SIZE, Blocks, tiny_model

pytestmark = pytest.mark.usefixtures("eager")


class Pyramid(HeatMapMethod):
    """Every map is a pyramid over the frame: cut at t, its box has sides of 1 − t."""

    name = "pyramid"
    title = "Pyramid"
    level = 0.1

    def localize(self, forward):
        off = tf.abs((tf.range(SIZE, dtype=tf.float32) + 0.5) / SIZE - 0.5)
        pyramid = 1 - 2 * tf.maximum(off[:, None], off[None, :])
        return tf.repeat(pyramid[None], tf.shape(forward.labels)[0], axis=0)


@dataclasses.dataclass(frozen=True)
class Middle(Teacher):
    """Knows of all images but the first that their object is in the middle."""

    name: ClassVar[str] = "middle"
    extent: float = 0.5

    def placer(self, lesson):
        def place(images):
            targets = Targets.none(len(images), lesson.shape)
            targets.coefficients[1:] = 0.5, 0.5, self.extent, self.extent
            targets.weights[1:] = 1.0
            return targets

        return Placer(SIZE, place)


class Unseen(Blocks):
    """Images whose boxes nobody may ask for."""

    def truth(self, name):
        raise AssertionError("Boxes were asked for.")


@pytest.fixture
def localizer():
    classifier = tiny_model().classifier
    return MethodLocalizer(classifier, Pyramid(), CLASS_NAMES, resize_size=SIZE)


@pytest.mark.parametrize(("extent", "level"), [(0.5, 0.5), (0.25, 0.75), (0.9, 0.1)])
def test_a_level_is_that_whose_boxes_are_the_teachers(localizer, extent, level):
    with TEACHERS.register("middle", Middle):
        choose_levels([localizer.method], localizer, Unseen(), f"middle:extent={extent}")
    assert localizer.method.chosen_level == pytest.approx(level, abs=2 / SIZE)


def test_it_is_the_level_with_the_most_right_boxes_not_the_highest_mean_iou(localizer, monkeypatch):
    # A level of 0.75 is right for the two small objects, and one of 0.1 fits the large one exactly.
    extents, weights = [0.2, 0.26, 0.9], [1.0, 1.0, 1.8]

    def place(images):
        targets = Targets.none(len(images), shapes.get("rectangle"))
        count = len(images)
        targets.coefficients[:] = 0.5
        targets.coefficients[:, 2:4] = np.resize(extents, count)[:, None]
        targets.weights[:] = np.resize(weights, count)
        return targets

    monkeypatch.setattr(Middle, "placer", lambda self, lesson: Placer(SIZE, place))
    with TEACHERS.register("middle", Middle):
        choose_levels([localizer.method], localizer, Unseen(), "middle")
    assert localizer.method.chosen_level == pytest.approx(0.75, abs=2 / SIZE)


def test_it_is_chosen_in_the_window_that_the_network_sees(localizer):
    wider = localizer.replace(resize_size=64)  # of which the central half is seen
    with TEACHERS.register("middle", Middle):
        choose_levels([wider.method], wider, Unseen(), "middle:extent=0.25")
    assert wider.method.chosen_level == pytest.approx(0.5, abs=2 / SIZE)


def test_what_the_teacher_said_is_kept_for_other_models(localizer, tmp_path, monkeypatch):
    with TEACHERS.register("middle", Middle):
        choose_levels([localizer.method], localizer, Unseen(), "middle", str(tmp_path))
        first = localizer.method.chosen_level
        (file,) = tmp_path.iterdir()
        assert file.name.startswith("pseudo_boxes_")
        monkeypatch.setattr(Middle, "placer", None)  # which would fail if it were asked again
        choose_levels([localizer.method], localizer, Unseen(), "middle", str(tmp_path))
    assert localizer.method.chosen_level == first


def test_evaluation_has_a_row_of_it_that_is_not_tuned(localizer):
    with TEACHERS.register("middle", Middle):
        found = evaluate(localizer, Blocks(), methods=["constant"], level_teacher="middle")
    assert list(found.methods) == ["pyramid_chosen", "pyramid_best", *_constant()]
    chosen = found.methods["pyramid_chosen"]
    assert not chosen.tuned and chosen.title.endswith("chosen without boxes")
    assert found.metrics["level_teacher"] == "middle"
    assert chosen.metrics["mean_iou"] != found.metrics["mean_iou"]


def _constant():
    return "constant_fixed", "constant_best"


def test_a_teacher_that_finds_nothing_says_so(localizer, monkeypatch):
    monkeypatch.setattr(
        Middle,
        "placer",
        lambda self, lesson: Placer(SIZE, lambda images: Targets.none(len(images), lesson.shape)),
    )
    with (
        TEACHERS.register("middle", Middle),
        pytest.raises(ValueError, match="'middle' cannot choose a level: No object was found"),
    ):
        choose_levels([localizer.method], localizer, Unseen(), "middle")
