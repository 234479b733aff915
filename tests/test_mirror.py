"""Shapes of mirror images, and the mean with them."""

import keras
import numpy as np
import pytest

from gc_net import parametrizations, shapes
from gc_net.detector import Detector
from gc_net.heads import DETECTOR_HEADS
from gc_net.parametrizations import PARAMETRIZATIONS
from gc_net.shapes import SHAPES
from tests.models import localizer_of
from tests.prediction.models import CLASS_NAMES, noise, tiny_model


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("name", list(PARAMETRIZATIONS))
def test_outputs_of_a_mirrored_shape_are_those_that_place_it_there(name, shape):
    shape, parametrization = shapes.get(shape), parametrizations.get(name)
    raw = np.random.default_rng(0).normal(size=(20, parametrization.num_outputs(shape)))
    if name in ("edges", "rated_edges"):
        raw = np.concatenate([0.3 + 0.1 * raw[:, :2], 0.7 + 0.1 * raw[:, 2:4], raw[:, 4:] / 5], 1)
    placed = np.asarray(parametrization.decode(np.float32(raw), shape))
    mirrored = parametrization.mirrored(np.float32(raw))
    found = shape.masks(parametrization.decode(mirrored, shape), 64, 64)
    expected = np.asarray(shape.masks(placed, 64, 64))[:, :, ::-1]
    # A pixel whose centre lies on an edge may fall to either side.
    assert np.mean((np.asarray(found) > 0) != (expected > 0)) < 2e-3


@pytest.mark.parametrize("head", DETECTOR_HEADS)
@pytest.mark.parametrize("shape", list(SHAPES))
def test_the_mean_is_the_same_from_either_side(head, shape):
    keras.utils.set_random_seed(0)
    detector = Detector("tiny", shape, 32, head=head, weights=None)
    images = np.stack([noise(32, 32, seed) for seed in range(4)])
    one = detector.place(images, mirror=True).coefficients
    other = detector.place(images[:, :, ::-1], mirror=True).coefficients
    boxes = [np.asarray(detector.shape.boxes(each)) for each in (one, shapes_mirrored(other))]
    np.testing.assert_allclose(*boxes, atol=1e-5)


@pytest.mark.parametrize("head", DETECTOR_HEADS)
@pytest.mark.parametrize("mirror", [False, True])
def test_the_mirror_image_is_looked_at_where_nothing_else_tells_how_sure_a_shape_is(head, mirror):
    keras.utils.set_random_seed(0)
    detector = Detector("tiny", "rectangle", 32, head=head, weights=None)
    images = np.stack([noise(32, 32, seed) for seed in range(4)])
    seen = []

    def forward(normalized):
        seen.append(normalized.shape[0])
        return detector.from_normalized(normalized)

    placed = detector.place(images, judged=True, mirror=mirror, forward=forward)
    tells = detector.parametrization.has_deviations
    assert seen == [4 if tells and not mirror else 8]
    raw, other = detector.raw(images), detector.raw(images[:, :, ::-1])
    if tells:
        if mirror:
            other = detector.parametrization.mirrored(other)
            apart, raw = np.asarray(raw - other)[:, :4] / 2, np.array(raw + other) / 2
            raw[:, -4:] = np.hypot(raw[:, -4:], apart)
        expected = detector.parametrization.expected_iou(raw)
    else:
        expected = detector.shape.iou(
            detector.decode(raw), detector.shape.mirrored(detector.decode(other))
        )
    np.testing.assert_allclose(placed.confidence, expected, atol=1e-3)
    assert detector.place(images, mirror=mirror).confidence is None
    assert (placed.agreement is None) == (tells and not mirror)


def shapes_mirrored(coefficients):
    return shapes.get("rectangle").mirrored(np.asarray(coefficients))


def test_a_localizer_keeps_whether_it_looks_at_the_mirror_image(tmp_path):
    localizer = localizer_of(tiny_model("rectangle"), CLASS_NAMES).replace(mirror=True)
    localizer.save(tmp_path)
    loaded = type(localizer).load(tmp_path)
    assert loaded.mirror and loaded.replace(second_look=0.0).mirror
    images = [noise(40, 50, seed) for seed in range(3)]
    plain, judged = (
        [p.box_xyxy for p in loaded.predict(images, confidence=confidence)]
        for confidence in (False, True)
    )
    np.testing.assert_allclose(plain, judged, atol=1e-3)
    with pytest.raises(ValueError, match="`mirror` must be true or false"):
        localizer.replace(mirror="no")
