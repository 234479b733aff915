import functools
import math
import subprocess
import sys

import cv2
import numpy as np
import pytest

import gc_net
from gc_net.data.loading import Unreadable
from gc_net.data.transforms import squash
from gc_net.datasets.creatures import Creatures
from gc_net.evaluation.evaluate import evaluate
from gc_net.prediction.graph import localize
from gc_net.prediction.prediction import Ellipse, OrientedBox, Prediction
from gc_net.saving import save_model
from gc_net.shapes import SHAPES
from gc_net.training_record import TrainingRecord
from tests.models import localizer_of
from tests.prediction.models import (
    CLASS_NAMES,
    IMAGE_SIZE,
    always_say,
    encode,
    noise,
    tiny_model,
    varied_model,
)


@pytest.fixture(scope="module")
def varied():
    return localizer_of(varied_model(), CLASS_NAMES)


@functools.cache
def _localizer(shape):
    return localizer_of(tiny_model(shape), CLASS_NAMES)


def fixed(shape, coefficients):
    """Return a localizer that says `coefficients` of every image."""
    localizer = _localizer(shape)
    always_say(localizer, coefficients=coefficients)
    return localizer


def whole_model(localizer):
    """Return the networks as a `GCNet`, which sees squashed images."""
    return gc_net.GCNet(localizer.detector, localizer.generator, localizer.classifier)


def test_an_upright_rectangle_comes_out_in_pixels_of_a_wide_image():
    (prediction,) = fixed("rectangle", [0.5, 0.25, 0.2, 0.3]).predict(noise(100, 400))
    assert prediction.size == (100, 400)
    # centre (200, 25), 80 wide, 30 high
    assert prediction.box_xyxy == pytest.approx((160, 10, 240, 40), abs=1e-2)
    assert np.allclose(prediction.corners, [(160, 10), (240, 10), (240, 40), (160, 40)], atol=1e-2)
    assert prediction.ellipse is None


@pytest.mark.parametrize("shape", SHAPES.names)
def test_the_networks_see_the_central_window_and_the_shape_is_put_back_where_it_was(shape):
    model = varied_model(shape)
    localizer = localizer_of(model, CLASS_NAMES, resize_size=41)
    assert localizer.resize_size == 41
    image = noise(120, 90, seed=4)
    (found,) = localizer.predict(image, evidence=True)
    # 32 of 41 pixels, from 4 on.
    window = squash(image, 41)[4:36, 4:36][None].astype("float32")
    seen = model(window)
    cx, cy, width, height, *angle = np.asarray(seen["coefficients"])[0]
    expected = [(cx * 32 + 4) / 41, (cy * 32 + 4) / 41, width * 32 / 41, height * 32 / 41, *angle]
    np.testing.assert_allclose(found.coefficients, expected, atol=1e-5)
    corners = np.asarray(seen["boxes"])[0].reshape(2, 2)
    box = (corners * 32 + 4) / 41 * [90, 120]
    np.testing.assert_allclose(found.box_xyxy, box.ravel(), atol=1e-2)
    best = np.asarray(seen["class_logits"])[0].argmax()
    assert found.class_id == best
    # What is inside and outside the shape is asked where the shape was placed.
    inside = model.supervise(window)["object"][0]
    probability = np.exp(inside[best]) / np.exp(inside).sum()
    assert found.object_probability == pytest.approx(probability, abs=1e-4)


def test_predictions_are_what_the_papers_protocol_measures(tmp_path):
    creatures = Creatures(num_train=3, num_test=4, image_size=40, num_classes=3)
    model = varied_model("rotated_rectangle")
    localizer = localizer_of(model, creatures.class_names, resize_size=37)
    measured = evaluate(localizer, creatures, methods=[])
    boxes = measured.boxes_in_images(np.asarray(model.shape.boxes(measured.coefficients)))
    split = creatures.split("test")
    found = localizer.predict([split.read(index) for index in range(4)])
    np.testing.assert_allclose([each.box_xyxy for each in found], boxes, atol=1e-3)
    assert [each.class_id for each in found] == measured.top_classes[:, 0].tolist()


def test_an_ellipse_at_45_degrees_is_stretched_with_a_wide_image():
    # A circle of relative diameter 0.5 squashed from 400 × 200 is 200 × 100 upright, at any angle.
    (circle,) = fixed("rotated_ellipse", [0.5, 0.5, 0.5, 0.5, math.pi / 4]).predict(noise(200, 400))
    assert circle.ellipse.center == pytest.approx((200, 100), abs=1e-2)
    assert circle.ellipse.axes == pytest.approx((200, 100), abs=1e-2)
    assert circle.ellipse.angle == pytest.approx(0, abs=1e-4)
    assert circle.box_xyxy == pytest.approx((100, 50, 300, 150), abs=1e-2)
    # An ellipse 0.6 × 0.2 at 45°, x stretched by 400 and y by 200. With M = [u v] and
    # u = 0.3·(cos, sin)·(400, 200), v = 0.1·(−sin, cos)·(400, 200):
    (slanted,) = fixed("rotated_ellipse", [0.5, 0.5, 0.6, 0.2, math.pi / 4]).predict(
        noise(200, 400)
    )
    half = math.sqrt(0.5)
    matrix = np.array([[0.3 * half * 400, -0.1 * half * 400], [0.3 * half * 200, 0.1 * half * 200]])
    directions, stretches, _ = np.linalg.svd(matrix)
    assert slanted.ellipse.axes == pytest.approx(2 * stretches, rel=1e-4)
    assert math.tan(slanted.ellipse.angle) == pytest.approx(
        directions[1, 0] / directions[0, 0], rel=1e-3
    )
    assert slanted.corners is None


def test_a_rotated_rectangle_becomes_the_parallelogram_that_it_covers_in_the_image():
    (prediction,) = fixed("rotated_rectangle", [0.5, 0.5, 0.4, 0.2, math.pi / 4]).predict(
        noise(100, 300)
    )
    # Relative half axes 0.2·(½√2, ½√2) and 0.1·(−½√2, ½√2).
    half = math.sqrt(0.5)
    u, v = np.array([0.2, 0.2]) * half, np.array([-0.1, 0.1]) * half
    expected = [(np.array([0.5, 0.5]) + s * u + t * v) * (300, 100) for s, t in
                [(-1, -1), (1, -1), (1, 1), (-1, 1)]]  # fmt: skip
    assert np.allclose(prediction.corners, expected, atol=1e-2)
    assert np.allclose(
        prediction.box_xyxy, [*np.min(expected, axis=0), *np.max(expected, axis=0)], atol=1e-2
    )


@pytest.mark.parametrize("shape", ["rectangle", "rotated_rectangle", "rotated_ellipse"])
def test_the_polygon_drawn_in_the_image_is_the_squashed_mask_stretched(shape):
    coefficients = [0.45, 0.55, 0.5, 0.3, 0.6][: 5 if shape.startswith("rotated") else 4]
    localizer = fixed(shape, coefficients)
    (prediction,) = localizer.predict(noise(300, 900))
    drawn = np.zeros((300, 900), np.uint8)
    cv2.fillPoly(drawn, [np.rint((prediction.polygon() - 0.5) * 16).astype(int)], 1, shift=4)
    exact = np.asarray(localizer.shape.masks(np.array([coefficients], "float32"), 300, 900))
    exact = exact[0, ..., 0].astype(bool)
    overlap = (drawn.astype(bool) & exact).sum() / (drawn.astype(bool) | exact).sum()
    assert overlap > 0.98


def test_a_shape_beyond_the_image_keeps_its_box_and_has_a_visible_part():
    (prediction,) = fixed("rectangle", [0.1, 0.5, 0.4, 0.5]).predict(noise(100, 200))
    assert prediction.box_xyxy == pytest.approx((-20, 25, 60, 75), abs=1e-2)
    assert prediction.visible_box_xyxy() == pytest.approx((0, 25, 60, 75), abs=1e-2)
    # Half of a circle that is centred on the corner: what is cut off reached up and left.
    (corner,) = fixed("rotated_ellipse", [1e-4, 1e-4, 0.5, 0.5, 0]).predict(noise(100, 100))
    assert corner.visible_box_xyxy() == pytest.approx((0, 0, 25, 25), abs=0.1)
    polygon = corner.visible_polygon().astype("float32")
    assert cv2.contourArea(polygon) == pytest.approx(math.pi * 25**2 / 4, rel=0.01)


@pytest.mark.parametrize("has_corners", [False, True])
@pytest.mark.parametrize(("x", "y"), [(0, 0), (400, 0), (400, 300), (0, 300)])
def test_a_needle_that_only_touches_a_corner_of_the_image_is_cut_as_its_box_is(x, y, has_corners):
    # Across the corner, and a little outside, where rounding may put it.
    right, below = x > 0, y > 0
    center = (x + (1e-6 if right else -1e-6), y + (1e-6 if below else -1e-6))
    angle = math.pi / 4 if right != below else -math.pi / 4
    ellipse = Ellipse(center, (100.0, 1e-7), angle)
    corners = tuple(map(tuple, OrientedBox(center, 100.0, 1e-7, angle).corners().tolist()))
    half = 50 * math.sqrt(0.5)
    box = (center[0] - half, center[1] - half, center[0] + half, center[1] + half)
    shape = (corners, None) if has_corners else (None, ellipse)
    prediction = Prediction((300, 400), "x", (), box, *shape, ())
    x1, y1 = (x - half if right else 0), (y - half if below else 0)
    expected = (x1, y1, x1 + half, y1 + half)
    assert prediction.visible_box_xyxy() == pytest.approx(expected, abs=1e-3)
    polygon = prediction.visible_polygon()
    assert (polygon >= 0).all() and (polygon <= (400, 300)).all()
    area = cv2.contourArea(polygon.astype("float32"), oriented=True)
    assert area == pytest.approx(half**2, rel=1e-3)  # positive: clockwise on screen


def test_the_oriented_box_is_the_smallest_one():
    random = np.random.default_rng(3)
    for _ in range(50):
        center, u, v = random.normal(0, 50, (3, 2))
        if u[0] * v[1] < u[1] * v[0]:
            v = -v
        corners = [tuple(center + s * u + t * v) for s, t in [(-1, -1), (1, -1), (1, 1), (-1, 1)]]
        prediction = Prediction((9, 9), "x", (), (0, 0, 0, 0), tuple(corners), None, ())
        box = prediction.oriented_box()
        oracle = cv2.minAreaRect(np.array(corners, "float32"))
        assert box.width * box.height == pytest.approx(np.prod(oracle[1]), rel=1e-3)
        # All corners lie within it, and touch it.
        found = cv2.minAreaRect(box.corners().astype("float32"))
        hull = cv2.convexHull(np.concatenate([box.corners(), corners]).astype("float32"))
        assert cv2.contourArea(hull) == pytest.approx(np.prod(found[1]), rel=1e-3)


def test_a_rectangle_is_its_own_oriented_box():
    square_image = fixed("rotated_rectangle", [0.5, 0.4, 0.5, 0.2, 0.3]).predict(noise(200, 200))
    box = square_image[0].oriented_box()
    assert box.center == pytest.approx((100, 80), abs=1e-2)
    assert (box.width, box.height, box.angle) == pytest.approx((100, 40, 0.3), abs=1e-2)
    assert np.allclose(box.corners(), square_image[0].corners, atol=1e-2)
    tall = fixed("rotated_rectangle", [0.5, 0.4, 0.2, 0.5, 0.3]).predict(noise(200, 200))[0]
    assert tuple(tall.oriented_box())[1:] == pytest.approx((40, 100, 0.3), abs=1e-2)


def test_files_bytes_and_arrays_of_mixed_sizes_give_the_same(varied, tmp_path):
    images = [noise(40, 90, seed=1), noise(64, 32, seed=2), noise(32, 32, seed=3)]
    path = tmp_path / "with space ü.png"
    path.write_bytes(encode(images[1]))
    mixed = [images[0], path, encode(images[2]), str(path), images[2].astype("float64")]
    predictions = varied.predict(mixed, batch_size=2)
    assert [prediction.size for prediction in predictions] == [
        (40, 90), (64, 32), (32, 32), (64, 32), (32, 32)
    ]  # fmt: skip
    assert predictions[1] == predictions[3]
    assert predictions[2].box_xyxy == pytest.approx(predictions[4].box_xyxy, abs=1e-3)
    for prediction, image in zip(predictions, [*images, images[1], images[2]], strict=True):
        outputs = whole_model(varied)(squash(image, IMAGE_SIZE)[None].astype("float32"))
        assert prediction.coefficients == pytest.approx(
            np.asarray(outputs["coefficients"])[0], abs=1e-5
        )
        scale = [*prediction.size[::-1]] * 2
        assert prediction.box_xyxy == pytest.approx(
            np.asarray(outputs["boxes"])[0] * scale, abs=1e-2
        )
        assert prediction.class_id == np.argmax(outputs["class_logits"])
        assert prediction.class_name == CLASS_NAMES[prediction.class_id]


def test_classes_are_listed_from_the_likeliest_on():
    localizer = _localizer("rotated_ellipse")
    always_say(localizer, class_logits=[0.0, 2.0, 1.0])
    (prediction,) = localizer.predict(noise(8, 8), top_k=2)
    weights = np.exp([2.0, 1.0]) / np.exp([0.0, 2.0, 1.0]).sum()
    assert [score.id for score in prediction.classes] == [1, 2]
    assert [score.name for score in prediction.classes] == [CLASS_NAMES[1], CLASS_NAMES[2]]
    assert [score.probability for score in prediction.classes] == pytest.approx(weights, abs=1e-5)
    assert len(localizer.predict(noise(8, 8), top_k=50)[0].classes) == 3


def test_an_image_that_cannot_be_read_is_reported_and_stops_no_other(varied, tmp_path):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(encode(noise(50, 50), ".jpg")[:300])
    unreadable = Unreadable()
    images = [noise(9, 9), b"no image", broken, np.zeros((4, 4, 7)), tmp_path / "missing.png",
              np.full((4, 4, 3), 0.5), np.full((4, 4, 3), np.nan), noise(5, 6)]  # fmt: skip
    predictions = varied.predict(images, batch_size=3, unreadable=unreadable)
    assert [prediction is not None for prediction in predictions] == [True] + [False] * 6 + [True]
    reasons = dict(unreadable)
    assert set(reasons) == {
        "images[1]", str(broken), "images[3]", str(tmp_path / "missing.png"), "images[5]",
        "images[6]",
    }  # fmt: skip
    assert "0–1" in reasons["images[5]"]
    assert predictions[7] == varied.predict(images[7])[0]


def test_images_of_which_none_can_be_read_are_reported_too(varied):
    unreadable = Unreadable()
    assert varied.predict([b"", b"?"], unreadable=unreadable) == [None, None]
    assert len(unreadable) == 2
    assert varied.predict([]) == []


def test_what_is_no_image_at_all_is_refused_by_its_index(varied):
    with pytest.raises(TypeError, match=r"images\[1\] is a dict"):
        varied.predict([noise(4, 4), {}])


@pytest.mark.parametrize("shape", SHAPES.names)
def test_confidence_is_how_far_the_shape_of_the_mirror_image_is_the_same(shape):
    model = varied_model(shape)
    kernel = model.detector.head.get_layer("outputs").kernel
    kernel.assign(kernel * 0.2)  # so that shapes overlap
    localizer = localizer_of(model, CLASS_NAMES)
    images = np.stack([noise(32, 32, seed) for seed in range(6)])
    predictions = localizer.predict(images)
    mirrored = localizer.predict(images[:, :, ::-1])
    size, expected = 256, []
    for prediction, other in zip(predictions, mirrored, strict=True):
        masks = localizer.shape.masks(np.float32([prediction.coefficients]), size, size)
        others = localizer.shape.masks(np.float32([other.coefficients]), size, size)
        one, other = np.asarray(masks)[0, ..., 0] > 0, np.asarray(others)[0, :, ::-1, 0] > 0
        expected.append((one & other).mean() / (one | other).mean())
    assert np.ptp(expected) > 0.05
    found = [prediction.confidence for prediction in predictions]
    assert found == pytest.approx(expected, abs=0.03)
    assert np.allclose(localize(localizer, images)["confidence"], found, atol=1e-4)


def test_a_shape_that_does_not_depend_on_the_image_is_trusted_where_it_is_its_own_mirror_image():
    model = varied_model("rotated_ellipse")
    for coefficients, expected in (
        ([0.5, 0.4, 0.6, 0.3, 0.0], 1.0),
        ([0.2, 0.5, 0.2, 0.2, 0.0], 0.0),
    ):
        always_say(model, coefficients=coefficients)
        (prediction,) = localizer_of(model, CLASS_NAMES).predict(noise(20, 30))
        assert prediction.confidence == pytest.approx(expected, abs=0.01)


def test_evidence_is_the_object_probability_and_the_backgrounds_relative_entropy(varied):
    images = np.stack([noise(32, 32, seed) for seed in range(6)])
    model = whole_model(varied)
    outputs = model.supervise(images.astype("float32"))
    whole = np.asarray(model(images.astype("float32"))["class_logits"])

    def softmax(logits):
        exponentials = np.exp(np.asarray(logits, "float64"))
        return exponentials / exponentials.sum(axis=-1, keepdims=True)

    inside, outside = softmax(outputs["object"]), softmax(outputs["background"])
    inside = inside[np.arange(6), whole.argmax(axis=-1)]
    entropy = -(outside * np.log(outside)).sum(axis=-1) / math.log(3)
    predictions = varied.predict(images, evidence=True)
    assert np.ptp(inside * entropy) > 0.01
    assert [each.object_probability for each in predictions] == pytest.approx(inside, abs=1e-4)
    assert [each.background_entropy for each in predictions] == pytest.approx(entropy, abs=1e-4)
    without = varied.predict(images)
    assert [each.confidence for each in without] == pytest.approx(
        [each.confidence for each in predictions], abs=1e-4
    )
    assert {each.object_probability for each in without} == {None}


def test_without_confidence_all_else_is_the_same(varied):
    image = noise(32, 48)
    (with_confidence,), (without,) = (
        varied.predict(image),
        varied.predict(image, confidence=False),
    )
    assert without.confidence is None
    assert without.box_xyxy == pytest.approx(with_confidence.box_xyxy, abs=1e-3)
    assert without.class_probability == pytest.approx(with_confidence.class_probability, abs=1e-5)


@pytest.mark.parametrize("shape", ["rectangle", "rotated_ellipse"])
def test_a_prediction_survives_json(shape):
    for asked in (False, True):
        (prediction,) = _localizer(shape).predict(noise(7, 9), confidence=asked, evidence=asked)
        line = prediction.to_json()
        assert "\n" not in line
        assert Prediction.from_json(line) == prediction


def test_a_saved_model_is_loaded_from_its_folder_or_its_run(tmp_path):
    record = TrainingRecord(settings={"data": {"dataset": "none"}}, loss_weights={"area": 2.0})
    saved = localizer_of(varied_model(), CLASS_NAMES, resize_size=40, record=record)
    saved.save(tmp_path / "run" / "model")
    expected = saved.predict(noise(30, 20))
    for folder in (tmp_path / "run", tmp_path / "run" / "model"):
        localizer = gc_net.load(folder)
        assert localizer.record == record and localizer.record.dataset == {"dataset": "none"}
        assert localizer.resize_size == 40
        (prediction,) = localizer.predict(noise(30, 20))
        assert prediction.box_xyxy == pytest.approx(expected[0].box_xyxy, abs=1e-3)
    with pytest.raises(ValueError, match="No model in"):
        gc_net.load(tmp_path)


def test_a_classifier_alone_is_refused(tmp_path):
    save_model(tmp_path, tiny_model().classifier, CLASS_NAMES)
    with pytest.raises(ValueError, match="is a Classifier, which localizes nothing"):
        gc_net.load(tmp_path)


def test_nothing_is_imported_before_it_is_asked_for():
    code = (
        "import sys, gc_net, gc_net.prediction, gc_net.prediction.prediction;"
        "assert 'tensorflow' not in sys.modules and 'keras' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
