import math

import cv2
import numpy as np
import pytest
import tensorflow as tf

from gc_net import shapes
from gc_net.shapes.base import MIN_EXTENT, pixel_grid
from gc_net.shapes.frame import principal_axes
from gc_net.shapes.samplers import SAMPLERS

every_shape = pytest.mark.parametrize("shape", [shapes.get(name) for name in shapes.SHAPES])
every_sampler = pytest.mark.parametrize("sampler", list(SAMPLERS))
ROTATING = [shapes.get("rotated_rectangle"), shapes.get("rotated_ellipse")]


def polygon_mask(points, height, width):
    """Rasterise with OpenCV, 16 times finer than the pixels, then take each pixel's centre."""
    fine = 16
    # With room on every side: OpenCV draws a line where a polygon is cut off by the canvas.
    canvas = np.zeros((3 * height * fine, 3 * width * fine), np.uint8)
    # OpenCV's integer coordinates are pixel centres, half a fine pixel in.
    points = points + np.array([width, height])
    points = np.round((points * fine - 0.5) * 2**8).astype(np.int32)
    cv2.fillPoly(canvas, [points], 1, shift=8)
    canvas = canvas[height * fine : 2 * height * fine, width * fine : 2 * width * fine]
    return canvas[fine // 2 :: fine, fine // 2 :: fine].astype(bool)


def near_edge(mask):
    """Return which pixels have the mask's edge within a pixel."""
    kernel = np.ones((3, 3), np.uint8)
    mask = np.pad(mask.astype(np.uint8), 1, mode="edge")
    return (cv2.dilate(mask, kernel) != cv2.erode(mask, kernel))[1:-1, 1:-1]


@every_shape
@every_sampler
def test_mask_agrees_with_opencv_up_to_the_edge_pixels(shape, sampler):
    coefficients = shape.sample(40, (3, 4), sampler)
    outlines = np.asarray(shape.outline(coefficients, num_points=512))
    masks = np.asarray(shape.masks(coefficients, 60, 90))[..., 0] > 0.5
    num_wrong = num_edge = 0
    for mask, outline in zip(masks, outlines, strict=True):
        expected = polygon_mask(outline * [90, 60], 60, 90)
        wrong, edge = mask != expected, near_edge(expected) | near_edge(mask)
        assert not (wrong & ~edge).any()
        num_wrong, num_edge = num_wrong + wrong.sum(), num_edge + edge.sum()
    assert num_wrong < 0.05 * num_edge  # OpenCV's fine raster is a sixteenth of a pixel too fat


def test_ellipse_is_the_one_that_opencv_draws():
    shape = shapes.get("rotated_ellipse")
    coefficients = np.array([[0.5, 0.4, 0.7, 0.3, 0.5]], "float32")
    size, fine = 64, 16
    canvas = np.zeros((size * fine, size * fine), np.uint8)
    cx, cy, width, height, angle = coefficients[0]
    center, axes = (cx * size * fine, cy * size * fine), (width * size * fine, height * size * fine)
    cv2.ellipse(canvas, (center, axes, math.degrees(angle)), 1, -1)
    expected = canvas[fine // 2 :: fine, fine // 2 :: fine].astype(bool)
    mask = np.asarray(shape.masks(coefficients, size, size))[0, ..., 0] > 0.5
    assert (mask != expected).sum() <= 0.01 * expected.sum()


def test_rotated_rectangle_has_the_corners_of_opencv():
    shape = shapes.get("rotated_rectangle")
    coefficients = np.array([[0.5, 0.4, 0.7, 0.3, 0.5]], "float32")
    expected = cv2.boxPoints(((0.5, 0.4), (0.7, 0.3), math.degrees(0.5)))
    corners = np.asarray(shape.outline(coefficients))[0]
    distance = np.linalg.norm(corners[:, None] - expected[None], axis=-1)
    assert distance.min(axis=1).max() < 1e-5
    assert sorted(distance.argmin(axis=1)) == [0, 1, 2, 3]


@every_shape
@every_sampler
def test_box_is_the_tight_box_of_the_outline(shape, sampler):
    coefficients = shape.sample(50, (5, 6), sampler)
    outline = np.asarray(shape.outline(coefficients, num_points=2000))
    expected = np.concatenate([outline.min(axis=1), outline.max(axis=1)], axis=-1)
    np.testing.assert_allclose(shape.boxes(coefficients), expected, atol=2e-6)


@every_shape
def test_box_encloses_the_mask_and_touches_it(shape):
    coefficients = shape.sample(30, (7, 8), "reference")
    masks = np.asarray(shape.masks(coefficients, 200, 200))[..., 0] > 0.5
    for mask, box in zip(masks, np.asarray(shape.boxes(coefficients)), strict=True):
        rows, columns = np.where(mask)
        extent = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]) / 200
        assert (box[:2] <= extent[:2] + 0.5 / 200).all()
        assert (box[2:] >= extent[2:] - 0.5 / 200).all()
        assert np.abs(box - extent).max() < 0.06  # the tip of a narrow shape fills few pixels
        if min(box[2] - box[0], box[3] - box[1]) > 0.3:
            assert np.abs(box - extent).max() < 0.025


@every_shape
def test_level_set_is_negative_inside_zero_on_the_border_and_positive_outside(shape):
    coefficients = np.asarray(shape.sample(20, (1, 1), "reference"))
    outline = np.asarray(shape.outline(coefficients, num_points=64))  # [B, P, 2]
    center = coefficients[:, None, :2]
    for factor, expected in [(0.9, -1), (1.0, 0), (1.1, 1)]:
        points = center + factor * (outline - center)
        level = shape.level_set(coefficients, points[:, None, :, 0], points[:, None, :, 1])
        if expected:
            assert (np.sign(level) == expected).all()
        else:
            np.testing.assert_allclose(level, 0, atol=1e-4)


def test_level_set_values_are_those_of_the_papers_formulas():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(2, 1, 1, 30)).astype("float32")
    cx, cy, w, h, theta = 0.45, 0.55, 0.6, 0.3, 0.4
    dx, dy = x - cx, y - cy
    # The appendix, with its rotation turned to go clockwise on screen and full extents.
    along, across = dx * np.cos(theta) + dy * np.sin(theta), dy * np.cos(theta) - dx * np.sin(theta)
    expected = {
        "rectangle": np.abs(dx / w + dy / h) + np.abs(dx / w - dy / h) - 1,
        "rotated_rectangle": np.abs(along / w + across / h) + np.abs(along / w - across / h) - 1,
        "rotated_ellipse": along**2 / (w / 2) ** 2 + across**2 / (h / 2) ** 2 - 1,
    }
    for name, values in expected.items():
        shape = shapes.get(name)
        coefficients = np.array([[cx, cy, w, h, theta][: shape.num_coefficients]], "float32")
        np.testing.assert_allclose(shape.level_set(coefficients, x, y), values, atol=1e-5)


@every_shape
def test_turning_is_clockwise_on_screen(shape):
    if not shape.rotates:
        pytest.skip("does not turn")
    coefficients = np.array([[0.5, 0.5, 0.8, 0.1, math.radians(30)]], "float32")
    mask = np.asarray(shape.masks(coefficients, 100, 100))[0, ..., 0] > 0.5
    rows, columns = np.where(mask)
    right = rows[columns > 70]
    assert right.mean() > 60  # the right end points down


@every_shape
def test_area_is_width_times_height(shape):
    coefficients = np.asarray(shape.sample(5, (0, 1)))
    np.testing.assert_allclose(shape.area(coefficients), coefficients[:, 2] * coefficients[:, 3])


@every_shape
@pytest.mark.parametrize("unit", [0.0, 1.0, "mixed"])
def test_extreme_coefficients_give_finite_masks_boxes_and_gradients(shape, unit):
    n = shape.num_coefficients
    units = np.tile([0.0, 1.0], n)[None, :n] if unit == "mixed" else np.full((1, n), unit)
    coefficients = tf.Variable(shape.from_unit(tf.constant(units, tf.float32)))
    x, y = pixel_grid(16, 16)
    with tf.GradientTape(persistent=True) as tape:
        level = shape.level_set(coefficients, x, y)
        boxes = shape.boxes(coefficients)
        outline = shape.outline(coefficients)
    for values in (level, boxes, outline):
        assert np.isfinite(values).all()
        assert np.isfinite(tape.gradient(values, coefficients)).all()


@every_shape
def test_extents_below_the_floor_are_drawn_as_the_floor(shape):
    coefficients = np.zeros((2, shape.num_coefficients), "float32")
    coefficients[:, :2] = 0.5
    coefficients[1, 2:4] = MIN_EXTENT
    level = np.asarray(shape.level_set(coefficients, *pixel_grid(8, 8)))
    np.testing.assert_array_equal(level[0], level[1])


# Mapping to the pixels of an image that is not square.


@every_shape
def test_scaled_box_and_outline_fit_the_mask_of_the_stretched_image(shape):
    coefficients = shape.sample(20, (9, 9), "reference")
    width, height = 300, 120
    frame = shape.frame(coefficients).scaled(width, height)
    np.testing.assert_allclose(
        shape.frame_boxes(frame),
        np.asarray(shape.boxes(coefficients)) * [width, height, width, height],
        atol=1e-4,
    )
    outlines = np.asarray(shape.frame_outline(frame, 512))
    masks = np.asarray(shape.masks(coefficients, height, width))[..., 0] > 0.5
    for mask, outline in zip(masks, outlines, strict=True):
        expected = polygon_mask(outline, height, width)
        assert not ((mask != expected) & ~near_edge(expected)).any()


def test_stretched_rotated_rectangle_is_a_parallelogram():
    shape = shapes.get("rotated_rectangle")
    coefficients = np.array([[0.5, 0.5, 0.4, 0.2, math.pi / 4]], "float32")
    corners = np.asarray(shape.frame_outline(shape.frame(coefficients).scaled(200, 100)))[0]
    # By hand: half axes .2·(cos 45°, sin 45°) and .1·(−sin 45°, cos 45°), stretched by 200 and 100.
    root = math.sqrt(0.5)
    u, v = (
        np.array([0.2 * root * 200, 0.2 * root * 100]),
        np.array([-0.1 * root * 200, 0.1 * root * 100]),
    )
    expected = np.array([100, 50]) + np.array([-u - v, u - v, u + v, -u + v])
    np.testing.assert_allclose(corners, expected, rtol=1e-5)
    sides = corners - np.roll(corners, 1, axis=0)
    assert abs(sides[0] @ sides[1]) > 1  # no right angle any more


def test_stretched_ellipse_is_the_ellipse_with_its_new_axes_and_angle():
    shape = shapes.get("rotated_ellipse")
    coefficients = shape.sample(50, (2, 2), "reference")
    frame = shape.frame(coefficients).scaled(320, 100)
    longer, shorter, angle = (np.asarray(value) for value in principal_axes(frame))
    assert (longer >= shorter).all()
    assert ((angle > -math.pi / 2) & (angle <= math.pi / 2 + 1e-6)).all()
    # Every point of the stretched outline satisfies the equation of that ellipse.
    offset = np.asarray(shape.frame_outline(frame, 100)) - np.asarray(frame.center)[:, None]
    cosine, sine = np.cos(angle)[:, None], np.sin(angle)[:, None]
    along = offset[..., 0] * cosine + offset[..., 1] * sine
    across = offset[..., 1] * cosine - offset[..., 0] * sine
    value = (2 * along / longer[:, None]) ** 2 + (2 * across / shorter[:, None]) ** 2
    np.testing.assert_allclose(value, 1, atol=2e-3)


def test_principal_axes_of_an_ellipse_not_stretched_are_its_own():
    shape = shapes.get("rotated_ellipse")
    longer, shorter, angle = principal_axes(
        shape.frame(np.array([[0.5, 0.5, 0.6, 0.2, 0.3]], "float32"))
    )
    np.testing.assert_allclose([longer[0], shorter[0], angle[0]], [0.6, 0.2, 0.3], atol=1e-6)
    longer, shorter, angle = principal_axes(
        shape.frame(np.array([[0.5, 0.5, 0.2, 0.6, 0.3]], "float32"))
    )
    np.testing.assert_allclose(
        [longer[0], shorter[0], angle[0]], [0.6, 0.2, 0.3 - math.pi / 2], atol=1e-6
    )


# Samplers.


@every_shape
@every_sampler
def test_samples_are_reproducible_and_in_range(shape, sampler):
    first = np.asarray(shape.sample(500, (1, 2), sampler))
    np.testing.assert_array_equal(first, shape.sample(500, (1, 2), sampler))
    assert not np.array_equal(first, shape.sample(500, (1, 3), sampler))
    unit = np.asarray(shape.to_unit(first))
    assert unit.min() >= 0 and unit.max() <= 1
    assert first.shape == (500, shape.num_coefficients)


@every_shape
def test_reference_samples_stay_inside_the_image(shape):
    boxes = np.asarray(shape.boxes(shape.sample(2000, (1, 2), "reference")))
    assert boxes.min() >= -1e-6 and boxes.max() <= 1 + 1e-6


@every_shape
def test_full_samples_reach_what_the_reference_ones_do_not(shape):
    coefficients = np.asarray(shape.sample(4000, (1, 2), "full"))
    boxes = np.asarray(shape.boxes(coefficients))
    crossing = (boxes[:, :2] < 0).any(-1) | (boxes[:, 2:] > 1).any(-1)
    longer = coefficients[:, 2:4].max(-1)
    assert 0.3 < crossing.mean() < 0.7
    assert (longer < 0.05).mean() > 0.02
    assert (longer > 0.95).mean() > 0.01
    if shape.rotates:
        assert coefficients[:, 4].min() < -1.5 and coefficients[:, 4].max() > 1.5


@pytest.mark.parametrize("shape", ROTATING, ids=lambda shape: shape.name)
def test_reference_shapes_are_shrunk_no_more_than_the_corners_need(shape):
    # Shrinking by .98 until the corners fit: one step less must not fit.
    coefficients = np.asarray(shape.sample(3000, (4, 2), "reference"))
    rectangle = shapes.get("rotated_rectangle")
    grown = coefficients.copy()
    grown[:, 2:4] /= 0.98
    boxes = np.asarray(rectangle.boxes(coefficients))
    assert ((boxes >= -1e-6) & (boxes <= 1 + 1e-6)).all()
    # Sides are at least .05 before shrinking, so these were shrunk.
    shrunk = coefficients[:, 2:4].min(-1) < 0.05 - 1e-6
    assert shrunk.any()
    boxes = np.asarray(rectangle.boxes(grown[shrunk]))
    assert ((boxes < 0) | (boxes > 1)).any(-1).all()


def test_sampling_works_inside_a_tf_data_graph():
    shape = shapes.get("rotated_ellipse")
    dataset = tf.data.Dataset.range(3).map(lambda step: shape.sample(4, tf.stack([step, step])))
    for step, batch in enumerate(dataset):
        np.testing.assert_allclose(batch, shape.sample(4, (step, step)), rtol=1e-6)


def test_seed_of_another_form_is_refused():
    with pytest.raises(ValueError, match="two integers"):
        shapes.get("rectangle").sample(2, 3)


def test_unknown_sampler_and_grid_are_refused():
    with pytest.raises(ValueError, match="Known ones: full, reference"):
        shapes.get("rectangle").sample(2, (0, 0), "gaussian")
    with pytest.raises(ValueError, match='"centers" or "corners"'):
        pixel_grid(4, 4, "edges")


class TestFit:
    @pytest.mark.parametrize("name", shapes.SHAPES.names)
    @pytest.mark.parametrize(
        "coefficients", [(0.4, 0.55, 0.5, 0.3, 0.6), (0.5, 0.4, 0.3, 0.6, -0.2)]
    )
    def test_a_mask_of_the_shape_itself_gives_its_box_back(self, name, coefficients):
        shape = shapes.get(name)
        given = np.array([coefficients[: shape.num_coefficients]], np.float32)
        mask = np.asarray(shape.masks(given, 400, 400))[0, ..., 0]
        fitted = shape.fit(mask)[None]
        np.testing.assert_allclose(shape.boxes(fitted), shape.boxes(given), atol=0.004)
        again = np.asarray(shape.masks(fitted, 400, 400))[0, ..., 0]
        assert (again * mask).sum() / np.maximum(again, mask).sum() > 0.98

    @pytest.mark.parametrize("name", shapes.SHAPES.names)
    def test_an_upright_fit_has_the_box_of_the_mask_and_no_angle(self, name):
        mask = np.zeros((50, 40), np.uint8)
        cv2.line(mask, (6, 10), (30, 41), 1, 3)  # a slanted stroke, which moments would turn to
        columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
        shape = shapes.get(name)
        fitted = shape.fit(mask, upright=True)
        assert fitted.shape == (shape.num_coefficients,)
        assert not fitted[4:].any()
        left, right, top, bottom = columns[0], columns[-1] + 1, rows[0], rows[-1] + 1
        box = [left / 40, top / 50, right / 40, bottom / 50]
        np.testing.assert_allclose(shape.boxes(fitted), box, atol=1e-6)

    @pytest.mark.parametrize("name", shapes.SHAPES.names)
    def test_a_single_pixel_gives_a_shape_of_about_a_pixel(self, name):
        mask = np.zeros((20, 20), bool)
        mask[4, 7] = True
        fitted = shapes.get(name).fit(mask)
        np.testing.assert_allclose(fitted[:2], [7.5 / 20, 4.5 / 20], atol=1e-6)
        np.testing.assert_allclose(fitted[2:4], 1 / 20, rtol=0.2)


class TestMean:
    @pytest.mark.parametrize("name", shapes.SHAPES.names)
    def test_the_mean_of_one_shape_is_that_shape(self, name):
        shape = shapes.get(name)
        given = np.array([[0.4, 0.6, 0.3, 0.5, -1.2]], np.float32)[:, : shape.num_coefficients]
        mean = shape.mean(np.stack([given, given]))
        np.testing.assert_allclose(shape.masks(mean, 64, 64), shape.masks(given, 64, 64), atol=1e-6)

    def test_two_descriptions_of_one_ellipse_have_it_as_their_mean(self):
        shape = shapes.get("rotated_ellipse")
        same = [[0.5, 0.5, 0.6, 0.2, 0.3], [0.5, 0.5, 0.2, 0.6, 0.3 - math.pi / 2]]
        mean = shape.mean(np.array(same, np.float32))
        np.testing.assert_allclose(mean, same[0], atol=1e-5)

    @pytest.mark.parametrize("name", shapes.SHAPES.names)
    def test_a_mirrored_shape_is_drawn_as_the_mirror_image(self, name):
        shape = shapes.get(name)
        given = np.array([[0.35, 0.6, 0.3, 0.5, 0.7]], np.float32)[:, : shape.num_coefficients]
        mirrored = np.asarray(shape.masks(shape.mirrored(given), 64, 64))
        np.testing.assert_array_equal(mirrored, np.asarray(shape.masks(given, 64, 64))[:, :, ::-1])
