"""Teachers by name, committees, and what is averaged in them."""

import dataclasses
import subprocess
import sys
import types
from typing import ClassVar

import cv2
import numpy as np
import pytest
import tensorflow as tf

from gc_net import shapes, teachers
from gc_net.metrics import mask_iou
from gc_net.stages import runner, warmup
from gc_net.stages.run_folder import RunError
from gc_net.stages.warmup import WarmupConfig
from gc_net.teachers import TEACHERS
from gc_net.teachers.base import Maps, MapTeacher, Placer, Targets, Teacher, drawn_masks
from gc_net.teachers.committee import Committee, agreed, averaged, overlap
from gc_net.teachers.descriptors import Descriptors, moved
from gc_net.teachers.model import Model, translated
from gc_net.teachers.segmenter import Segmenter
from gc_net.teachers.silhouettes import Silhouettes
from gc_net.teachers.targets import find_targets
from tests.training.samples import ROOT, small_config, small_options

CONFIG = small_config(classifier={"epochs": 1})


class TestNames:
    def test_a_name_alone_has_the_defaults(self):
        assert teachers.get("descriptors") == Descriptors()

    def test_settings_stand_behind_colons(self):
        found = teachers.get("silhouettes:size=192:upright=true:share=0.5")
        assert found == Silhouettes(size=192, upright=True, share=0.5)

    def test_what_a_teacher_has_not_is_its_sources(self):
        found = teachers.get("silhouettes:weights=classifier:size=160:image_size=96")
        assert found.size == 160
        expected = Descriptors(weights="classifier", image_size=96)
        assert teachers.get(found.source) == expected

    def test_what_is_no_teacher_is_the_folder_of_a_model(self):
        assert teachers.get("runs/first/model") == Model(folder="runs/first/model")
        assert teachers.get("runs/first/model:share=2") == Model(folder="runs/first/model", share=2)
        assert teachers.get(r"C:\runs\model") == Model(folder=r"C:\runs\model")

    def test_several_are_a_committee(self):
        found = teachers.get("descriptors:share=0.3+silhouettes:size=160+runs/first/model")
        assert found.members == (
            Descriptors(share=0.3),
            Silhouettes(size=160),
            Model(folder="runs/first/model"),
        )

    def test_brackets_keep_teachers_together(self):
        found = teachers.get("(descriptors+silhouettes):share=2:average=median+segmenter:cut=0.3")
        inner, segmenter = found.members
        assert inner.members == (Descriptors(), Silhouettes())
        assert (inner.share, inner.average, found.average) == (2, "median", "mean")
        assert segmenter == Segmenter(cut="0.3")
        assert found.asked() == [Descriptors(), Silhouettes(), segmenter]

    def test_brackets_give_a_source_settings_of_its_own(self):
        found = teachers.get("segmenter:source=(silhouettes:size=96):epochs=2:weights=classifier")
        assert found == Segmenter(source="silhouettes:size=96:weights=classifier", epochs=2)

    def test_the_committee_has_members_of_its_own(self):
        found = teachers.get("committee")
        assert found.average == "median"
        assert [type(each).__name__ for each in found.asked()] == [
            "Segmenter", "Segmenter", "Descriptors", "Segmenter"
        ]  # fmt: skip

    def test_a_folder_may_have_a_plus_in_its_name(self, tmp_path):
        folder = tmp_path / "a+b"
        folder.mkdir()
        assert teachers.get(str(folder)) == Model(folder=str(folder))

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("descriptors:size=9", r"no setting 'size'.*image_size"),
            ("descriptors:image_size=large", "`image_size` must be of type int"),
            ("descriptors:image_size=8", "`image_size` must be at least 32"),
            ("descriptors:upright=yes", "`upright` must be true or false"),
            ("segmenter:cut=2", "`cut` must be wide, narrow, or a number"),
            ("segmenter:cut=some", "`cut` must be wide, narrow, or a number"),
            ("silhouettes:weights=mine", "`weights` must be one of backbone, classifier"),
        ],
    )
    def test_a_setting_that_makes_no_sense_is_refused(self, name, message):
        with pytest.raises(ValueError, match=message):
            teachers.get(name).check(types.SimpleNamespace())

    def test_silhouettes_need_maps_to_cut(self):
        with pytest.raises(RunError, match="'committee' has none"):
            teachers.get("silhouettes:source=committee").check(None)

    @pytest.mark.parametrize(
        ("recorded", "name"),
        [
            ({"teacher": "descriptors", "silhouettes": True}, "silhouettes"),
            ({"descriptors": "classifier", "upright": True},
             "descriptors:weights=classifier:upright=true"),
            ({"teacher": "runs/a/model", "teacher_keeps": 0.7}, "runs/a/model:keeps=0.7"),
            ({"teacher": "descriptors+silhouettes"}, "descriptors+silhouettes"),
        ],
    )  # fmt: skip
    def test_what_earlier_versions_recorded_has_a_name(self, recorded, name):
        assert teachers.upgraded({"epochs": 3, **recorded}) == {"epochs": 3, "teacher": name}


def targets_of(*rows, weights=None):
    coefficients = np.array(rows, np.float32)
    there = np.isfinite(coefficients[:, 0])
    return Targets(coefficients, np.float32(there if weights is None else weights))


NONE = [np.nan] * 4


class TestCommittee:
    def test_upright_rectangles_are_averaged_edge_by_edge(self):
        shape = shapes.get("rectangle")
        one, other = [0.4, 0.5, 0.4, 0.6], [0.6, 0.5, 0.2, 0.2]
        mean = averaged(shape, np.array([[one], [other]]), np.array([[0.25], [0.75]]))
        edges = [np.asarray(shape.boxes(np.float32([row]))) for row in (one, other)]
        np.testing.assert_allclose(shape.boxes(mean), 0.25 * edges[0] + 0.75 * edges[1], atol=1e-6)

    @pytest.mark.parametrize("average", ["mean", "median"])
    def test_boxes_of_rotated_ellipses_are_averaged_edge_by_edge(self, average):
        shape = shapes.get("rotated_ellipse")
        rows = np.random.default_rng(0).uniform(0.2, 0.8, (3, 5, 5))
        joined = averaged(shape, rows, np.full((3, 5), 1.0), average)
        expected = getattr(np, average)(np.asarray(shape.boxes(rows)), axis=0)
        np.testing.assert_allclose(shape.boxes(joined), expected, atol=1e-5)

    @pytest.mark.parametrize("name", ["rotated_ellipse", "rotated_rectangle"])
    def test_one_shape_with_other_coefficients_is_the_same(self, name):
        shape = shapes.get(name)
        one = [0.4, 0.5, 0.6, 0.2, 1.4]
        other = [0.4, 0.5, 0.2, 0.6, 1.4 - np.pi / 2]  # the same axes, in the other order
        mean = averaged(shape, np.array([[one], [other]]), np.full((2, 1), 0.5))
        np.testing.assert_allclose(mean, [one], atol=1e-6)

    def test_the_median_is_not_moved_by_one_that_is_far_off(self):
        shape = shapes.get("rectangle")
        rows = [[0.5, 0.5, 0.2, 0.2], [0.5, 0.5, 0.3, 0.4], [0.9, 0.9, 0.1, 0.1]]
        shares = np.array([[1.0], [1.0], [1.0]])
        found = averaged(shape, np.array(rows)[:, None], shares, "median")
        # Left edges are at 0.4, 0.35, 0.85; right ones at 0.6, 0.65, 0.95; and so on.
        np.testing.assert_allclose(shape.boxes(found), [[0.4, 0.4, 0.65, 0.7]], atol=1e-6)
        doubled = averaged(shape, np.array(rows)[:, None], shares * [[4], [1], [1]], "median")
        np.testing.assert_allclose(doubled, [rows[0]], atol=1e-6)
        two = averaged(shape, np.array(rows[:2])[:, None], shares[:2], "median")
        np.testing.assert_allclose(two, [[0.5, 0.5, 0.25, 0.3]], atol=1e-6)

    def test_angles_on_both_sides_of_the_vertical_have_a_vertical_mean(self):
        shape = shapes.get("rotated_rectangle")
        rows = np.array([[[0.5, 0.5, 0.8, 0.2, 1.5]], [[0.5, 0.5, 0.8, 0.2, -1.5]]])
        mean = averaged(shape, rows, np.full((2, 1), 0.5))
        assert abs(mean[0, 4]) == pytest.approx(np.pi / 2, abs=1e-3)
        assert mean[0, 2] > 0.75 and mean[0, 3] < 0.25

    def test_members_are_weighed_by_their_share_and_by_whether_they_say_anything(self):
        shape = shapes.get("rectangle")
        one = targets_of([0.2, 0.5, 0.4, 0.4], NONE, NONE)
        other = targets_of([0.4, 0.5, 0.4, 0.4], [0.7, 0.5, 0.4, 0.4], NONE)
        found = agreed(shape, [one, other], np.array([3.0, 1.0]))
        np.testing.assert_allclose(found.coefficients[0], [0.25, 0.5, 0.4, 0.4], atol=1e-6)
        np.testing.assert_allclose(found.coefficients[1], [0.7, 0.5, 0.4, 0.4], atol=1e-6)
        assert np.isnan(found.coefficients[2]).all()
        # Half of each lies in the other: 0.2 of 0.6. Nobody agrees with the second, nor the third.
        np.testing.assert_allclose(found.weights, [1 / 3, 0, 0], atol=1e-6)
        np.testing.assert_array_equal(found.indices, [0])

    def test_weights_are_the_mean_agreement_of_pairs_that_trust_themselves(self):
        shape = shapes.get("rectangle")
        same, away = [0.3, 0.5, 0.2, 0.2], [0.8, 0.5, 0.2, 0.2]
        members = [targets_of(same), targets_of(same, weights=[0.25]), targets_of(away)]
        found = agreed(shape, members, np.ones(3))
        np.testing.assert_allclose(found.weights, [0.5 / 3], atol=1e-6)

    def test_one_member_alone_is_as_it_is(self):
        only = targets_of([0.3, 0.5, 0.2, 0.2], NONE, weights=[0.4, 0.0])
        found = agreed(shapes.get("rectangle"), [only], np.array([0.7]))
        np.testing.assert_allclose(found.coefficients, only.coefficients, atol=1e-6)
        np.testing.assert_allclose(found.weights, only.weights)

    @pytest.mark.parametrize("name", shapes.SHAPES.names)
    def test_overlap_is_that_of_the_masks(self, name):
        shape = shapes.get(name)
        one = np.float32([[0.5, 0.5, 0.6, 0.3, 0.4], [0.3, 0.3, 0.2, 0.2, 0.0]])
        other = np.float32([[0.55, 0.5, 0.5, 0.3, 0.1], [0.8, 0.8, 0.2, 0.2, 0.0]])
        one, other = one[:, : shape.num_coefficients], other[:, : shape.num_coefficients]
        masks = [np.asarray(shape.masks(each, 400, 400))[..., 0] > 0 for each in (one, other)]
        both = (masks[0] & masks[1]).sum((1, 2)) / (masks[0] | masks[1]).sum((1, 2))
        np.testing.assert_allclose(overlap(shape, one, other), both, atol=0.04)
        assert overlap(shape, one, np.full_like(one, np.nan)).tolist() == [0, 0]


class TestTranslation:
    def test_rotated_shapes_keep_their_spread(self):
        ellipse, rectangle = shapes.get("rotated_ellipse"), shapes.get("rotated_rectangle")
        coefficients = np.float32([[0.5, 0.5, 0.6, 0.3, 0.7]])
        found = translated(coefficients, ellipse, rectangle)
        masks = [
            np.asarray(shape.masks(each, 300, 300))[0, ..., 0] > 0
            for shape, each in ((ellipse, coefficients), (rectangle, found))
        ]
        covariances = [np.cov(np.stack(np.nonzero(mask))) for mask in masks]
        np.testing.assert_allclose(covariances[0], covariances[1], rtol=0.02)

    def test_upright_ones_take_the_box(self):
        ellipse, rectangle = shapes.get("rotated_ellipse"), shapes.get("rectangle")
        coefficients = np.float32([[0.5, 0.5, 0.6, 0.3, 0.7]])
        box = ellipse.boxes(coefficients)
        there = translated(coefficients, ellipse, rectangle)
        np.testing.assert_allclose(rectangle.boxes(there), box, atol=1e-6)
        back = translated(there, rectangle, ellipse)
        np.testing.assert_allclose(ellipse.boxes(back), box, atol=1e-6)


@dataclasses.dataclass(frozen=True)
class Middle(Teacher):
    """A teacher for these tests: a square in the middle.

    Attributes:
        side: Its side.
    """

    name: ClassVar[str] = "middle"
    side: float = 0.5

    def placer(self, lesson):
        row = [0.5, 0.5, self.side, self.side, 0.0][: lesson.shape.num_coefficients]

        def place(images):
            return Targets(np.tile(np.float32(row), (len(images), 1)), np.ones(len(images)))

        return Placer(32, place)


@dataclasses.dataclass(frozen=True)
class Bright(MapTeacher):
    """A teacher for these tests: what is brighter than the middle of all grey levels."""

    name: ClassVar[str] = "bright"

    def fit_maps(self, lesson):
        def maps(images):
            grey = images.numpy().mean(axis=-1) / 255
            return np.stack([cv2.blur(each, (9, 9)) for each in grey]) - 0.5

        return Maps(64, maps)


class Half:
    """A network whose maps lie half a cell to the left and a quarter of one above the image."""

    def maps(self, images):
        grey = images.numpy().mean(axis=-1)
        size = grey.shape[1]
        move = np.float32([[1, 0, -size / 16], [0, 1, -size / 32]])
        return self.cells([cv2.warpAffine(each, move, (size, size)) for each in grey])

    @staticmethod
    def cells(grey):
        return np.stack([cv2.resize(each, (8, 8), interpolation=cv2.INTER_AREA) for each in grey])


def test_centered_descriptors_lie_where_the_image_has_the_object(monkeypatch):
    rng = np.random.default_rng(0)
    images = np.zeros((40, 64, 64, 3), np.uint8)
    for image in images:
        x, y = rng.integers(12, 32, 2)
        image[y : y + 16, x : x + 20] = 255
    teacher = Descriptors(image_size=64, centered=True)
    lesson = types.SimpleNamespace(
        data=types.SimpleNamespace(split=range(40)),
        batches=lambda *args: [{"image": tf.constant(images)}],
    )
    offset = teacher._offset(lesson, Half().maps)
    np.testing.assert_allclose(offset, [1 / 16, 1 / 32], atol=2e-3)
    maps = moved(Half().maps(tf.constant(images)), *offset)
    found, expected = (
        [np.array(center_of_mass(each)) for each in stack]
        for stack in (maps, Half.cells(images.mean(axis=-1)))
    )
    # In cells, of which the maps were half a one off.
    np.testing.assert_allclose(found, expected, atol=0.12)


def center_of_mass(values):
    """Return the centre of mass (y, x) of a map, in cells."""
    rows, columns = np.indices(values.shape)
    return (rows * values).sum() / values.sum(), (columns * values).sum() / values.sum()


@pytest.fixture(scope="module")
def classified(tmp_path_factory):
    """A run with its classifier, which other runs take from there."""
    work_dir = tmp_path_factory.mktemp("classified")
    runner.train(CONFIG, small_options(work_dir), ["classifier"])
    return str(work_dir)


class TestSegmenter:
    @pytest.fixture(scope="class")
    def lesson(self, classified):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(TEACHERS._entries, "bright", Bright)
            patch.setattr(Bright, "trunk", lambda self, lesson, size: lesson.backbone.trunk(size))
            with runner.Runner(CONFIG, small_options(classified)) as run:
                stage_run = runner.StageRun(run, run.units["detector"])
                yield warmup._lesson(stage_run, stage_run.load("classifier"))

    def test_learns_what_its_source_shows(self, lesson):
        found = Segmenter(source="bright", epochs=80)
        maps, source = lesson.maps(found), lesson.maps(teachers.get("bright"))
        overlaps = []
        for batch in lesson.batches(64, "Comparing"):
            learned = found.masks(batch["image"], maps(batch["image"]), 64)
            shown = Bright().masks(batch["image"], source(batch["image"]), 64)
            overlaps.append(mask_iou(learned[:, ::2, ::2], shown))
        assert np.median(np.concatenate(overlaps)) > 0.6

    def test_one_network_serves_all_cuts_and_a_lower_one_shows_more(self, lesson):
        options = {"source": "bright", "epochs": 80}
        maps = [lesson.maps(Segmenter(cut=cut, **options)) for cut in ("0.2", "0.5", "0.8")]
        batch = next(iter(lesson.batches(64, "Comparing")))["image"]
        low, middle, high = (each(batch) for each in maps)
        np.testing.assert_allclose(low - middle, np.log(4), rtol=1e-4)
        assert (low > 0).sum() > (middle > 0).sum() > (high > 0).sum()

    def test_the_narrow_cut_is_the_higher_one(self, lesson):
        fitted = Segmenter(source="bright", epochs=80)
        _, cuts = lesson.once(("network", fitted), lambda: fitted.fit(lesson))
        assert 0 < cuts["wide"] <= cuts["narrow"] < 1
        maps = [lesson.maps(dataclasses.replace(fitted, cut=cut)) for cut in cuts]
        batch = next(iter(lesson.batches(64, "Comparing")))["image"]
        assert (maps[0](batch) <= maps[1](batch)).all()

    def test_is_the_same_every_time(self, lesson):
        teacher = Segmenter(source="bright", epochs=1)
        found = [teacher.targets(dataclasses.replace(lesson, _made={})) for _ in range(2)]
        np.testing.assert_allclose(found[0].coefficients, found[1].coefficients, atol=1e-4)


class TestMasks:
    """Masks that targets have where a lesson asks for them."""

    def test_masks_of_teachers_with_outlines_are_not_blurred_by_others(self):
        members = tuple(map(teachers.get, ("descriptors", "silhouettes:share=3", "segmenter")))
        targets = [
            targets_of([0.5] * 4, [0.5] * 4)._replace(masks=np.full((2, 28, 28), value, np.uint8))
            for value in (250, 100, 200)
        ]
        targets[1].coefficients[1] = np.nan
        lesson = types.SimpleNamespace(shape=shapes.get("rectangle"), with_masks=True)
        found = Committee(members=members).joined(lesson, iter(targets))
        np.testing.assert_array_equal(found.masks[:, 3, 4], [125, 200])
        found = Committee(members=members[:1]).joined(lesson, iter(targets))
        np.testing.assert_array_equal(found.masks[:, 3, 4], [250, 250])
        assert not Committee(members=("descriptors", "(descriptors+descriptors)")).outlines
        assert Committee(members=("descriptors", "(descriptors+segmenter)")).outlines

    def test_a_drawn_mask_is_that_of_the_shape(self):
        shape = shapes.get("rectangle")
        masks = drawn_masks(shape, np.float32([[0.25, 0.5, 0.5, 1.0], NONE]))
        assert (masks[0, :, :14] == 255).all() and not masks[0, :, 14:].any()
        assert not masks[1].any()

    def test_a_segmenter_shows_how_likely_each_cell_is(self):
        values = np.array([[[-50.0, 0.0], [np.log(3), 50.0]]])
        maps = Maps(64, None, level=np.log(1 / 3))  # cut at a quarter
        found = Segmenter().soft_masks(maps, values, values > 0)
        np.testing.assert_allclose(found, [[[0, 0.25], [0.5, 1]]], atol=1e-6)

    def test_they_are_kept_with_the_targets(self, middle, classified, tmp_path):
        with runner.Runner(CONFIG, small_options(tmp_path, reuse=classified)) as run:
            stage_run = runner.StageRun(run, run.units["detector"])
            lesson = warmup._lesson(stage_run, stage_run.load("classifier"))
            lesson = dataclasses.replace(lesson, with_masks=True)
            path, teacher = str(tmp_path / "targets.npz"), teachers.get("middle")
            found = find_targets(teacher, lesson, path)
            again = find_targets(teacher, lesson, path)
            assert found.masks.shape == (26, 28, 28) and found.masks.any()
            np.testing.assert_array_equal(again.masks, found.masks)


@pytest.fixture
def middle(monkeypatch):
    monkeypatch.setitem(TEACHERS._entries, "middle", Middle)


class TestOneMore:
    """A teacher that is registered can be named, asked, and joined with others."""

    def train(self, folder, teacher, classified):
        settings = WarmupConfig(epochs=1, batch_size=6, teacher=teacher)
        config = dataclasses.replace(CONFIG, warmup=settings)
        runner.train(config, small_options(folder, reuse=classified), stages=("warmup",))
        with np.load(folder / "warmup" / "targets.npz") as file:
            return Targets(file["coefficients"], file["weights"])

    def test_it_is_asked_by_name(self, middle, classified, tmp_path):
        targets = self.train(tmp_path, "middle:side=0.25", classified)
        assert (targets.coefficients[:, 2:4] == 0.25).all() and (targets.weights == 1).all()
        assert '"teacher": "middle:side=0.25"' in (tmp_path / "config.json").read_text()

    def test_it_joins_a_committee(self, middle, classified, tmp_path):
        described = "descriptors:weights=classifier:image_size=64"
        committee = f"middle:side=0.25+{described}+middle:side=0.75:share=2"
        targets = self.train(tmp_path, committee, classified)
        assert len(targets.indices) and (targets.weights < 1).all()
        assert targets.weights.std() > 0

    def test_it_is_among_the_known_names_of_the_flag(self):
        program = (
            "from absl import flags; from gc_net.teachers import TEACHERS; "
            "TEACHERS._entries['middle'] = 'tests.teachers.test_teachers:Middle'; "
            "import tools.train; print(flags.FLAGS['warmup_teacher'].help)"
        )
        found = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
        )
        known = ", ".join([*teachers.TEACHERS, "middle"])
        assert f"Known: {known}." in found.stdout
