"""Raw outputs to coefficients and back, for every shape and every parametrization."""

import math

import numpy as np
import pytest
import tensorflow as tf

import gc_net
from gc_net import parametrizations, shapes
from gc_net.generators.model import ModelGenerator
from gc_net.metrics import box_iou

ROTATING = [name for name in shapes.SHAPES if shapes.get(name).rotates]
every_shape = pytest.mark.parametrize("shape", shapes.SHAPES.names)
every_rotating_shape = pytest.mark.parametrize("shape", ROTATING)
NAMES = parametrizations.PARAMETRIZATIONS.names
# Those of outputs of any value, and those that read the outputs of one head.
FREE = [name for name in NAMES if parametrizations.get(name).head is None]
every_parametrization = pytest.mark.parametrize("name", NAMES)
every_free_one = pytest.mark.parametrize("name", FREE)


def decode(name, raw, shape):
    return np.asarray(parametrizations.get(name).decode(raw, shapes.get(shape)))


def encode(name, coefficients, shape):
    return np.asarray(parametrizations.get(name).encode(coefficients, shapes.get(shape)))


def gradient(name, raw, shape, target):
    """Return masks' squared distance to `target` differentiated by the raw outputs, [B, m]."""
    raw = tf.constant(raw, tf.float32)
    generator = ModelGenerator(shape, target.shape[1])
    with tf.GradientTape() as tape:
        tape.watch(raw)
        drawn = generator(parametrizations.get(name).decode(raw, generator.shape))
        loss = tf.reduce_sum(tf.reduce_mean(tf.square(drawn - target), axis=(1, 2, 3)))
    return tape.gradient(loss, raw).numpy()


@every_shape
@every_free_one
def test_zeros_are_a_centred_shape_of_half_the_size(name, shape):
    num_outputs = parametrizations.get(name).num_outputs(shapes.get(shape))
    coefficients = decode(name, np.zeros((1, num_outputs)), shape)[0]
    np.testing.assert_allclose(coefficients[:4], 0.5, atol=1e-3)
    np.testing.assert_allclose(coefficients[4:], 0.0, atol=1e-6)


@every_shape
@every_parametrization
def test_a_fresh_detector_starts_there(name, shape):
    head = parametrizations.get(name).head or "native"
    detector = gc_net.Detector("tiny", shape, 32, head, parametrization=name, weights=None)
    images = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3)).astype(np.uint8)
    coefficients = np.asarray(detector(images))
    np.testing.assert_allclose(coefficients[:, :4], 0.5, atol=0.05)
    raw = detector.raw(images)
    np.testing.assert_allclose(detector.parametrization.decode(raw, detector.shape), coefficients)


@every_shape
@every_parametrization
def test_what_is_encoded_and_decoded_is_the_same_shape(name, shape):
    figure = shapes.get(shape)
    coefficients = np.asarray(figure.sample(300, (1, 2)))
    again = decode(name, encode(name, coefficients, shape), shape)
    np.testing.assert_allclose(figure.boxes(again), figure.boxes(coefficients), atol=3e-3)
    np.testing.assert_allclose(again[:, :2], coefficients[:, :2], atol=1e-3)
    drawn, expected = (np.asarray(figure.masks(each, 64, 64)) for each in (again, coefficients))
    assert np.mean(drawn != expected) < 1e-3


@every_shape
@every_free_one
def test_centres_lie_in_the_image_and_extents_below_its_side(name, shape):
    num_outputs = parametrizations.get(name).num_outputs(shapes.get(shape))
    raw = np.random.default_rng(0).normal(0, 8, (500, num_outputs))
    coefficients = decode(name, raw, shape)
    assert np.all((coefficients[:, :4] >= 0) & (coefficients[:, :4] <= 1))
    assert np.all(np.abs(coefficients[:, 4:]) <= math.pi / 2 + 1e-6)


def test_shapes_that_do_not_rotate_are_the_same_in_both():
    raw = np.random.default_rng(0).normal(0, 2, (20, 4))
    np.testing.assert_array_equal(
        decode("sigmoid", raw, "rectangle"), decode("seamless", raw, "rectangle")
    )


@every_rotating_shape
def test_an_axis_that_turns_all_round_moves_the_outputs_by_small_steps(shape):
    degrees = np.arange(0, 181, 2)
    # As a fit of the axis would give it: in (−90°, 90°], so that it jumps at the vertical.
    angles = np.radians((degrees + 89) % 180 - 89)
    coefficients = [[0.5, 0.5, 0.8, 0.2, angle] for angle in angles]
    raw = encode("seamless", np.array(coefficients), shape)
    elongation = np.hypot(*raw[0, 3:])
    steps = np.abs(np.diff(raw, axis=0)).max(axis=1)
    assert steps.max() < 1.01 * elongation * math.radians(4)
    np.testing.assert_allclose(raw[0], raw[-1], atol=1e-4)  # half a turn changes nothing
    # Halfway between two axes on either side of the vertical is the vertical.
    near = raw[[44, 46]].mean(axis=0, keepdims=True)
    assert abs(decode("seamless", near, shape)[0, 4]) == pytest.approx(math.pi / 2, abs=1e-3)
    assert np.abs(np.diff(encode("sigmoid", np.array(coefficients), shape), axis=0)).max() > 5


@every_shape
@every_free_one
@pytest.mark.parametrize("elongation", [0.0, 1e-8, 1e-3, 0.05, 1.0, 40.0, 1e30])
@pytest.mark.parametrize("size", [-30.0, 0.0, 30.0])
def test_gradients_are_finite_everywhere(name, shape, elongation, size):
    figure = shapes.get(shape)
    rows = [[0.3, -0.2, size, elongation * np.cos(t), elongation * np.sin(t)] for t in range(7)]
    raw = np.array(rows)[:, : figure.num_coefficients]
    target = np.zeros((1, 16, 16, 1), np.float32)
    target[:, 2:8, 4:14] = 1.0
    found = gradient(name, raw, shape, target)
    assert np.isfinite(found).all()
    # Nor do they explode where a shape becomes round, or square.
    assert np.abs(found).max() < 2.0


def test_the_gradient_near_and_at_the_circle_is_that_of_finite_differences():
    shape, size = "rotated_ellipse", 32
    generator = ModelGenerator(shape, size)
    target = np.asarray(generator(np.array([[0.55, 0.45, 0.7, 0.3, 0.5]], np.float32)))

    def loss(raw):
        drawn = np.asarray(generator(decode("seamless", raw, shape)), np.float64)
        return np.mean(np.square(drawn - target), axis=(1, 2, 3))

    for e1, e2 in ((0.0, 0.0), (0.01, -0.02), (-0.3, 0.1), (0.8, 0.6)):
        raw = np.array([[0.1, -0.1, 0.2, e1, e2]])
        moves = 0.02 * np.eye(5)
        expected = (loss(raw + moves) - loss(raw - moves)) / 0.04
        found = gradient("seamless", raw, shape, target)[0]
        np.testing.assert_allclose(found, expected, atol=0.03 * np.abs(expected).max())


def test_a_circle_learns_which_way_to_turn():
    """The gradient at exactly round is that of the ellipses next to it, not zero."""
    for degrees in (-80, -30, 0, 45, 90):
        angle = np.radians(degrees)
        wanted = np.array([[0.5, 0.5, 0.7, 0.3, angle]], np.float32)
        target = np.asarray(ModelGenerator("rotated_ellipse", 48)(wanted))
        *_, e1, e2 = -gradient("seamless", np.zeros((1, 5)), "rotated_ellipse", target)[0]
        difference = np.arctan2(e2, e1) - 2 * angle
        assert abs((difference + np.pi) % (2 * np.pi) - np.pi) < np.radians(5)


def test_unknown_names_are_named():
    with pytest.raises(ValueError, match=r"Unknown parametrization 'polar'.*edges, sigmoid"):
        gc_net.Detector("tiny", "rectangle", 32, parametrization="polar", weights=None)
    with pytest.raises(ValueError, match=r"must be the name of a shape.*Received: 5"):
        gc_net.Detector("tiny", 5, 32, weights=None)


def test_a_detector_from_before_parametrizations_is_the_papers():
    detector = gc_net.Detector("tiny", "rectangle", 32, weights=None)
    config = detector.get_config()
    assert (config.pop("shape"), config.pop("parametrization")) == ("rectangle", "seamless")
    for count, shape in ((4, "rectangle"), (5, "rotated_rectangle")):
        old = gc_net.Detector.from_config({**config, "num_coefficients": count})
        assert (old.shape.name, old.parametrization.name) == (shape, "sigmoid")


class TestEdges:
    """Edges of a box and a correlation, see `gc_net.parametrizations.edges`."""

    def test_an_upright_rectangle_is_the_box_itself(self):
        boxes = np.array([[0.1, 0.2, 0.7, 0.9], [0.0, 0.0, 1.0, 1.0]], np.float32)
        figure = shapes.get("rectangle")
        found = figure.boxes(decode("edges", boxes, "rectangle"))
        np.testing.assert_allclose(found, boxes, atol=1e-7)

    def test_ends_that_change_places_are_put_in_order(self):
        for shape in shapes.SHAPES:
            raw = np.array([[0.1, 0.2, 0.7, 0.9, 0.3], [0.7, 0.9, 0.1, 0.2, 0.3]])
            raw = raw[:, : shapes.get(shape).num_coefficients]
            np.testing.assert_allclose(*decode("edges", raw, shape), atol=1e-6)

    @pytest.mark.parametrize("correlation", [-0.9, -0.2, 0.0, 0.5, 0.99])
    def test_an_ellipse_touches_the_box_and_has_the_correlation(self, correlation):
        box = [0.1, 0.2, 0.7, 0.6]
        shape = shapes.get("rotated_ellipse")
        coefficients = decode("edges", [[*box, correlation]], shape.name)
        np.testing.assert_allclose(shape.boxes(coefficients)[0], box, atol=2e-4)
        y, x = np.nonzero(np.asarray(shape.masks(coefficients, 400, 400))[0, ..., 0])
        assert np.corrcoef(x, y)[0, 1] == pytest.approx(correlation, abs=0.01)

    @every_rotating_shape
    @pytest.mark.parametrize("box", [[0.1, 0.2, 0.7, 0.6], [0.2, 0.1, 0.5, 0.9]])
    @pytest.mark.parametrize("correlation", [-0.9, -0.2, 0.0, 0.5, 0.99])
    def test_any_shape_has_the_axes_of_the_ellipse_and_a_box_of_that_area(
        self, shape, box, correlation
    ):
        ellipse = decode("edges", [[*box, correlation]], "rotated_ellipse")[0]
        found = decode("edges", [[*box, correlation]], shape)[0]
        assert found[4] == pytest.approx(ellipse[4], abs=1e-5)
        assert found[2] / found[3] == pytest.approx(ellipse[2] / ellipse[3], rel=1e-4)
        left, top, right, bottom = np.asarray(shapes.get(shape).boxes(found[None]))[0]
        area = (box[2] - box[0]) * (box[3] - box[1])
        assert (right - left) * (bottom - top) == pytest.approx(area, rel=1e-3)

    def test_the_angle_is_half_the_doubled_one(self):
        # 2ρwh against w² − h², by hand: w = 0.3, h = 0.2, ρ = 0.5 are 0.06 and 0.05.
        raw = [[0.2, 0.3, 0.8, 0.7, 0.5]]
        expected = 0.5 * math.atan2(0.06, 0.05)
        assert decode("edges", raw, "rotated_ellipse")[0, 4] == pytest.approx(expected, abs=1e-6)

    def test_a_mirrored_image_has_the_opposite_correlation(self):
        raw = np.array([[0.2, 0.3, 0.6, 0.9, 0.4]])
        mirrored = np.array([[0.4, 0.3, 0.8, 0.9, -0.4]])
        for shape in ROTATING:
            expected = shapes.get(shape).mirrored(decode("edges", raw, shape))
            np.testing.assert_allclose(decode("edges", mirrored, shape), expected, atol=1e-6)

    def test_the_expected_iou_follows_from_how_far_the_edges_deviate(self):
        # A box of 0.4 × 0.5, by hand: 1 − (0.04 + 0.12)/(2·0.4) = 0.8 along x, and 1 − (0.05 +
        # 0.15)/(2·0.5) = 0.8 along y, so that 0.64 is shared: 0.64/(2 − 0.64).
        raw = np.float32([[0.2, 0.3, 0.6, 0.8, 0.04, 0.05, 0.12, 0.15]] * 4)
        raw[1, 4:] = 0  # sure
        raw[2, 6] = 0.9  # more than the width
        raw[3, [0, 2]] = raw[3, [2, 0]]  # ends that have changed places
        found = parametrizations.get("edges").expected_iou(raw)
        np.testing.assert_allclose(found, [0.64 / 1.36, 1, 0, 0.64 / 1.36], rtol=1e-5)

    def test_the_expected_iou_is_near_the_mean_of_drawn_boxes(self):
        box, off = np.array([0.2, 0.1, 0.7, 0.8]), np.array([0.06, 0.02, 0.04, 0.08])
        drawn = np.random.default_rng(0).normal(box, off * np.sqrt(np.pi / 2), (20_000, 4))
        raw = np.float32([[*box, *off]])
        expected = float(parametrizations.get("edges").expected_iou(raw)[0])
        assert expected == pytest.approx(box_iou(box, drawn).mean(), abs=0.01)

    def test_a_small_object_is_trusted_less_for_edges_that_are_as_far_off(self):
        raw = np.float32([[0.4, 0.4, 0.6, 0.6, *[0.05] * 4], [0.1, 0.1, 0.9, 0.9, *[0.05] * 4]])
        small, large = parametrizations.get("edges").expected_iou(raw)
        assert small < large - 0.2

    @pytest.mark.parametrize("turn", [[], [0.2]])
    def test_edges_deviate_more_where_two_views_disagree(self, turn):
        one = np.float32([[0.2, 0.3, 0.6, 0.8, *turn, 0.04, 0.05, 0.12, 0.15]])
        other = np.float32([[0.26, 0.3, 0.6, 0.8, *turn, 0.04, 0.07, 0.12, 0.15]])
        mean = parametrizations.get("edges").mean(one, other)
        # The left edges are 0.06 apart, so that each is 0.03 from the middle: 3, 4 and 5.
        expected = [[0.23, 0.3, 0.6, 0.8, *turn, 0.05, 0.06, 0.12, 0.15]]
        np.testing.assert_allclose(mean, expected, rtol=1e-5)

    @every_shape
    def test_deviations_change_places_in_the_mirror_image(self, shape):
        turn, turned = ([0.4], [-0.4]) if shapes.get(shape).rotates else ([], [])
        raw = np.float32([[0.2, 0.3, 0.6, 0.9, *turn, 0.01, 0.02, 0.03, 0.04]])
        mirrored = [[0.4, 0.3, 0.8, 0.9, *turned, 0.03, 0.02, 0.01, 0.04]]
        np.testing.assert_allclose(parametrizations.get("edges").mirrored(raw), mirrored, atol=1e-6)

    @every_shape
    def test_shapes_beyond_the_image_are_encoded_as_well(self, shape):
        coefficients = np.array([[0.9, 0.1, 0.6, 0.5, 0.7]], np.float32)
        coefficients = coefficients[:, : shapes.get(shape).num_coefficients]
        again = decode("edges", encode("edges", coefficients, shape), shape)
        np.testing.assert_allclose(again, coefficients, atol=1e-4)

    @every_shape
    @pytest.mark.parametrize("correlation", [0.0, 1e-8, -1e-4, 0.3, 0.9999, 1.0, -3.0])
    @pytest.mark.parametrize("size", [0.0, 1e-6, 0.3])  # of a square: round at no correlation
    def test_gradients_are_finite_everywhere(self, shape, correlation, size):
        widths = size * np.array([1, 1 + 1e-6, 1.001, 2])
        rows = [[0.5 - w, 0.5 - size, 0.5 + w, 0.5 + size, correlation] for w in widths]
        raw = np.array(rows)[:, : shapes.get(shape).num_coefficients]
        target = np.zeros((1, 16, 16, 1), np.float32)
        target[:, 2:8, 4:14] = 1.0
        found = gradient("edges", raw, shape, target)
        assert np.isfinite(found).all()
        assert np.abs(found).max() < 20.0

    def test_a_circle_learns_which_way_to_turn(self):
        wanted = np.array([[0.5, 0.5, 0.7, 0.3, 0.5]], np.float32)
        for angle, sign in ((0.6, 1), (-0.6, -1)):
            wanted[0, 4] = angle
            target = np.asarray(ModelGenerator("rotated_ellipse", 48)(wanted))
            circle = np.array([[0.3, 0.3, 0.7, 0.7, 0.0]])
            assert -sign * gradient("edges", circle, "rotated_ellipse", target)[0, 4] > 1e-3

    @pytest.mark.parametrize(
        ("head", "name"), [("native", "edges"), ("edges", "seamless"), ("edges", "sigmoid")]
    )
    def test_head_and_parametrization_belong_together(self, head, name):
        with pytest.raises(ValueError, match="'edges' is both a head and the parametrization"):
            gc_net.Detector("tiny", "rectangle", 32, head, parametrization=name, weights=None)

    def test_the_head_brings_its_parametrization(self):
        detector = gc_net.Detector("tiny", "rectangle", 32, "edges", weights=None)
        assert detector.parametrization.name == "edges"
        again = gc_net.Detector.from_config(detector.get_config())
        assert (again.head_name, again.parametrization.name) == ("edges", "edges")
