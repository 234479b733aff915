"""A head of edges that rates its own boxes: what it looks at, how it learns, and what stays."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import gc_net
from gc_net import backbones, parametrizations, shapes
from gc_net.export.saved_model import export_saved_model
from gc_net.export.tflite import export_tflite
from gc_net.generators.model import ModelGenerator
from gc_net.heads.edges import MASK, with_mask
from gc_net.heads.rated_edges import EVIDENCE, RATING, evidence_model
from gc_net.saving import load_model
from gc_net.stages import runner
from gc_net.stages.config import DataConfig
from gc_net.stages.rating import RatingConfig, rated_localizer
from gc_net.stages.warmup import WarmupConfig
from gc_net.teachers.base import Lesson, Targets
from gc_net.training.data import TrainingData
from gc_net.training.rating import rated, ridge, with_rating
from tests.engines.test_engines import spread_weights
from tests.prediction.models import CLASS_NAMES
from tests.training.samples import assert_same_weights, run_tool, small_config, small_options

TEACHER = "descriptors:weights=classifier:image_size=64"


def pictures(count=4, size=32, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, size, size, 3)).astype(np.uint8)


def edges_detector(shape="rectangle"):
    keras.utils.set_random_seed(0)
    model = gc_net.Detector("tiny", shape, 32, head="edges", weights=None)
    spread_weights(model)
    return model


def rating_of(model, seed=1):
    """Return a rated detector whose rating depends on the image, and lies around one half."""
    model = with_rating(model)
    layer = model.head.get_layer(RATING)
    _, evidence = evidence_model(model.head)(model.features(tf.constant(pictures(), tf.float32)))
    values = np.asarray(evidence) @ np.random.default_rng(seed).normal(size=layer.kernel.shape)
    scale = 0.3 / np.ptp(values)
    kernel = scale * np.random.default_rng(seed).normal(size=layer.kernel.shape)
    layer.set_weights([kernel, np.array([0.5 - scale * values.mean()])])
    return model


class TestHead:
    @pytest.mark.parametrize("shape", shapes.SHAPES.names)
    def test_shapes_stay_exactly_as_they_are(self, shape):
        model, images = edges_detector(shape), pictures()
        rated = rating_of(model)
        np.testing.assert_array_equal(rated(images), model(images))
        np.testing.assert_array_equal(rated.raw(images)[:, :-1], model.raw(images))
        for mirror in (False, True):
            places = [each.place(images, True, mirror) for each in (rated, model)]
            np.testing.assert_array_equal(*(each.coefficients for each in places))

    @pytest.mark.parametrize("mirror", [False, True])
    def test_the_ratings_of_the_views_and_their_profiles_both_count(self, mirror):
        model, images = rating_of(edges_detector()), pictures()
        plain = edges_detector().place(images, True, mirror).confidence
        views = (images, images[:, :, ::-1]) if mirror else (images,)
        rating = np.mean([np.asarray(model.raw(view))[:, -1] for view in views], axis=0)
        assert np.ptp(rating) > 0.05 and 0 < rating.min() < rating.max() < 1
        found = model.place(images, True, mirror).confidence
        np.testing.assert_allclose(found, np.sqrt(rating * np.asarray(plain)), atol=1e-5)

    def test_for_one_that_has_learned_nothing_the_profiles_count_alone(self):
        found = with_rating(edges_detector()).place(pictures(), judged=True).confidence
        plain = edges_detector().place(pictures(), judged=True).confidence
        np.testing.assert_allclose(found, np.sqrt(plain), rtol=1e-6)

    def test_a_rating_beyond_the_range_of_an_iou_is_its_end(self):
        raw = np.float32([[0.2, 0.3, 0.6, 0.8, *[0.0] * 4, rating] for rating in (-0.1, 0.49, 1.2)])
        found = parametrizations.get("rated_edges").expected_iou(raw)
        np.testing.assert_allclose(found, [0.0, 0.7, 1.0], atol=1e-6)

    def test_the_evidence_is_what_it_says(self):
        model = rating_of(edges_detector())
        maps = model.features(tf.constant(pictures(), tf.float32))
        raw, evidence = (np.asarray(each) for each in evidence_model(model.head)(maps))
        mask = model.head.get_layer(MASK)
        look = keras.Model(model.head.inputs, [mask.input, mask.output])
        features, logits = (np.asarray(each, np.float64) for each in look(maps))
        inside = 1 / (1 + np.exp(-logits))
        count = features.shape[-1]
        for place, shares in enumerate((inside, 1 - inside)):
            mean = (features * shares).mean((1, 2)) / (shares.mean((1, 2)) + 1e-3)
            np.testing.assert_allclose(evidence[:, place * count :][:, :count], mean, rtol=1e-3)
        np.testing.assert_allclose(evidence[:, 2 * count : 3 * count], features.max((1, 2)))
        off, extents = raw[:, 4:8], raw[:, 2:4] - raw[:, :2]
        np.testing.assert_array_equal(evidence[:, 3 * count :][:, :4], off)
        relative = evidence[:, 3 * count + 4 :][:, :4]
        np.testing.assert_allclose(relative, off / np.abs(np.tile(extents, 2)), rtol=1e-4)
        np.testing.assert_allclose(evidence[:, -2:], np.abs(extents), atol=1e-6)

    def test_a_box_and_a_mask_of_no_extent_have_finite_evidence(self):
        model = rating_of(edges_detector())
        layer = model.head.get_layer(EVIDENCE)
        features, mask = np.ones((1, 4, 4, 8), "float32"), np.full((1, 4, 4, 1), -200, "float32")
        found = layer([features, mask, np.full((1, 8), 0.5, "float32")])
        assert np.isfinite(found).all()

    def test_it_has_a_mask_and_draws_other_shapes(self):
        model, images = rating_of(edges_detector()), pictures()
        turned = model.with_shape("rotated_ellipse")
        np.testing.assert_array_equal(turned.raw(images)[:, -1], model.raw(images)[:, -1])
        raw, mask = with_mask(model.head)(model.features(tf.constant(images, tf.float32)))
        assert raw.shape == (4, 9) and mask.shape == (4, 16, 16)

    def test_no_training_starts_from_it(self):
        assert "rated_edges" not in gc_net.heads.DETECTOR_HEADS

    def test_half_precision_ends_in_float32(self):
        policy = keras.config.dtype_policy()
        keras.config.set_dtype_policy("mixed_bfloat16")
        try:
            assert rating_of(edges_detector()).raw(pictures()).dtype == "float32"
        finally:
            keras.config.set_dtype_policy(policy)


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
@pytest.mark.parametrize("export", [export_saved_model, export_tflite])
def test_what_is_exported_is_as_sure(export, tmp_path):
    detector = rating_of(edges_detector())
    classifier = gc_net.Classifier("tiny", 3, 32, weights=None)
    parts = detector, ModelGenerator("rectangle", 32), classifier
    localizer = gc_net.Localizer(*parts, CLASS_NAMES, mirror=True)
    localizer.save(tmp_path / "model")
    loaded = gc_net.load(tmp_path / "model")
    confidence = localizer.first_look(pictures())["confidence"]
    assert np.ptp(confidence) > 0.001
    np.testing.assert_array_equal(loaded.first_look(pictures())["confidence"], confidence)
    _, differences = export(tmp_path / "model", tmp_path / "exported")
    (difference,) = (value for name, value in differences.items() if name.endswith("confidence"))
    assert difference < 1e-3


class TestRidge:
    def test_it_finds_what_a_value_tells(self):
        draw = np.random.default_rng(0).normal
        values = draw(3.0, [1.0, 5.0, 0.2], (20_000, 3))
        wanted = 0.7 + values @ [0.1, -0.02, 0.0] + draw(0, 0.1, 20_000)
        kernel, bias = ridge(values, wanted)
        np.testing.assert_allclose(kernel, [0.1, -0.02, 0.0], atol=5e-3)
        np.testing.assert_allclose(values @ kernel + bias, wanted, atol=0.6)
        assert np.mean(values @ kernel + bias) == pytest.approx(wanted.mean(), abs=1e-6)

    def test_few_images_tell_it_little(self):
        values = np.random.default_rng(0).normal(size=(20, 3))
        kernel, _ = ridge(values, values[:, 0])
        assert 0 < kernel[0] < 0.2

    def test_what_is_always_the_same_has_no_say(self):
        values = np.random.default_rng(0).normal(size=(100, 2))
        values[:, 1] = 4.0 + 1e-6 * values[:, 1]
        kernel, bias = ridge(values, values[:, 0])
        assert kernel[1] == 0 and np.isfinite(bias)


def lesson(count=26):
    dataset = gc_net.datasets.get("creatures", num_train=count, num_classes=3, image_size=40)
    data = TrainingData(dataset.split("train"), DataConfig(image_size=32), seed=0)
    classifier = gc_net.Classifier("tiny", 3, 32, weights=None)
    return Lesson(data, shapes.get("rectangle"), backbones.get("tiny"), "none", classifier)


class Disagreeing:
    """Shows the detector's own boxes in bright images, and others in dark ones."""

    def __init__(self, detector):
        self.detector = detector

    def targets(self, lesson):
        targets = Targets.none(len(lesson.data.split), lesson.shape)
        for batch in lesson.batches(lesson.data.resize_size, "Asking"):
            index, images = batch["index"].numpy(), batch["image"].numpy()
            placed = self.detector.place(images, mirror=True).coefficients.numpy()
            self.bright = images.mean((1, 2, 3)) > np.median(images.mean((1, 2, 3)))
            placed[~self.bright, 2:4] *= 0.5
            targets.coefficients[index] = placed
        targets.coefficients[0] = np.nan  # where it finds nothing
        return targets


def test_it_learns_on_which_images_the_teacher_disagrees():
    given, detector = lesson(), edges_detector()
    teacher = Disagreeing(detector)
    found, iou = rated(detector, teacher, given)
    assert iou == pytest.approx((1 + 0.25) / 2, abs=0.05)
    (batch,) = given.batches(given.data.resize_size, "Asking")
    windows = found.windows(batch["image"]).numpy()
    ratings = [np.asarray(found.raw(views))[:, -1] for views in (windows, windows[:, :, ::-1])]
    rating = np.mean(ratings, axis=0)
    assert rating[teacher.bright].mean() > rating[~teacher.bright].mean() + 0.02
    assert rating.mean() == pytest.approx(iou, abs=0.05)


def test_it_learns_from_an_image_and_its_mirror_image_alike():
    given, detector = lesson(), edges_detector()
    found, _ = rated(detector, Disagreeing(detector), given)
    images = pictures(6)
    one, other = (found.place(each, True, True) for each in (images, images[:, :, ::-1]))
    np.testing.assert_allclose(one.confidence, other.confidence, atol=1e-5)


class TestStage:
    @pytest.fixture(scope="class")
    def finished(self, tmp_path_factory):
        work_dir = tmp_path_factory.mktemp("rating")
        runner.train(self.config(), small_options(work_dir))
        return work_dir

    def config(self, images=20, head="edges"):
        warmup = {"epochs": 1, "batch_size": 6, "train_from": "head", "teacher": TEACHER}
        base = small_config(classifier={"epochs": 1}, detector={"head": head, "epochs": 0})
        rating = RatingConfig(images=images, teacher=TEACHER)
        detector = dataclasses.replace(base.detector, shape="rectangle")
        warmup = WarmupConfig(**warmup)
        return dataclasses.replace(base, detector=detector, warmup=warmup, rating=rating)

    def test_the_model_of_the_run_is_rated_and_places_the_same_shapes(self, finished):
        model = gc_net.load(finished / "model")
        assert model.detector.head_name == "rated_edges"
        assert model.record.stages[-1] == "rating"
        detector = load_model(finished / "detector" / "model").model
        assert detector.head_name == "edges"
        images = pictures(6, model.resize_size)
        places = [each.place(images, True, True) for each in (detector, model.detector)]
        np.testing.assert_array_equal(*(each.boxes for each in places))
        assert not np.allclose(*(each.confidence for each in places))

    def test_a_finished_run_can_be_rated_later(self, finished, tmp_path):
        runner.train(self.config(0), small_options(tmp_path, reuse=str(finished)))
        assert gc_net.load(tmp_path / "model").detector.head_name == "edges"
        runner.train(self.config(), small_options(tmp_path, reuse=str(finished)))
        assert_same_weights(tmp_path / "model", finished / "model")

    def test_the_tool_rates_a_model_as_the_stage_does(self, finished, tmp_path):
        runner.train(self.config(0), small_options(tmp_path / "run", reuse=str(finished)))
        out = tmp_path / "rated"
        flags = ["--rating_images=20", f"--rating_teacher={TEACHER}", f"--output={out}"]
        done = run_tool("rate", f"--model={tmp_path / 'run'}", *flags)
        assert done.returncode == 0, done.stderr
        assert_same_weights(out, finished / "model")
        assert gc_net.load(out).record.settings["rating"]["images"] == 20

    def test_another_head_cannot_be_rated(self, finished):
        with pytest.raises(ValueError, match="Only the head `edges` can learn to rate"):
            self.config(head="position")
        detector = gc_net.Detector("tiny", "rectangle", 32, head="position", weights=None)
        model = gc_net.load(finished / "model")
        split = lesson().data.split
        with pytest.raises(ValueError, match="'position' cannot learn to rate its boxes"):
            rated_localizer(model.replace(detector=detector), split, RatingConfig(images=5))


def test_a_part_of_a_split_has_the_same_images():
    given = lesson().data
    part = given.part(np.array([7, 2]))
    assert len(part.split) == 2 and part.cache is None
    np.testing.assert_array_equal(part.split.read(0), given.split.read(7))
    assert part.split.file(1) == given.split.file(2)
