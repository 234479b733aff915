"""Targets where a view shows them: edges and masks move, shrink and turn over together."""

import numpy as np
import pytest
import tensorflow as tf

from gc_net import shapes
from gc_net.shapes.base import Shape
from gc_net.teachers.base import Targets, drawn_masks
from gc_net.training.shown_targets import ShownTargets, masks_in_windows

SIZE = 160
WINDOWS = [(0, 0, 0, 160, 160), (20, 33, 0, 112, 112), (20, 33, 1, 112, 112), (9, 40, 1, 150, 90)]
ELLIPSES = np.float32([[0.5, 0.45, 0.5, 0.25, 0.6]])


def targets(ellipses=ELLIPSES):
    """Targets of ellipses as a head of edges is shown them: their boxes, and their masks."""
    ellipse = shapes.get("rotated_ellipse")
    left, top, right, bottom = np.asarray(ellipse.boxes(ellipses)).T
    boxes = np.stack([(left + right) / 2, (top + bottom) / 2, right - left, bottom - top], axis=-1)
    return Targets(boxes, np.ones(len(boxes), np.float32), drawn_masks(ellipse, ellipses))


@pytest.mark.parametrize("window", WINDOWS)
def test_edges_and_mask_are_those_of_what_the_window_shows(window):
    shown = ShownTargets(targets(), np.array([window]), SIZE, mask_size=56)
    learned, weights = shown(tf.constant([0]))
    ellipse = shapes.get("rotated_ellipse")
    placed = Shape.in_windows(ELLIPSES, np.array([window]), SIZE)
    np.testing.assert_allclose(weights, [1.0])
    box = np.clip(ellipse.boxes(placed), 0, 1)
    np.testing.assert_allclose(learned["edges"], box, atol=1e-4)
    expected = np.asarray(ellipse.masks(placed, 56, 56))[..., 0]
    assert np.mean((np.asarray(learned["mask"]) > 0.5) != expected) < 0.01
    inside = expected.sum() / 56**2
    assert np.mean(learned["mask"]) == pytest.approx(inside, abs=0.01)


def test_a_whole_mask_stays_as_it_is():
    masks = np.random.default_rng(0).integers(0, 256, (2, 28, 28)).astype(np.uint8)
    whole = np.array([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1]], np.float32)
    found = np.asarray(masks_in_windows(masks, whole, 28))
    np.testing.assert_allclose(found[0], masks[0] / 255, atol=1e-5)
    np.testing.assert_allclose(found[1], masks[1, :, ::-1] / 255, atol=1e-5)


def test_views_are_found_by_their_image_inside_a_graph():
    both = targets(np.repeat(ELLIPSES, 2, axis=0) + np.float32([[0] * 5, [0.1, 0, 0, 0, 0]]))
    both.weights[1] = 0.5
    windows = np.array([WINDOWS[0]] * 4)
    windows[2:, 2] = 1
    shown = ShownTargets(both, windows, SIZE, images=np.array([0, 1, 0, 1]), mask_size=28)
    rows = next(iter(tf.data.Dataset.range(4).batch(4).map(shown)))
    edges, weights = rows[0]["edges"].numpy(), rows[1].numpy()
    np.testing.assert_allclose(weights, [1, 0.5, 1, 0.5])
    np.testing.assert_allclose(edges[1, [0, 2]], edges[0, [0, 2]] + 0.1, atol=1e-5)
    np.testing.assert_allclose(edges[2:, [0, 2]], 1 - edges[:2, [2, 0]], atol=1e-5)


def test_an_object_that_a_window_hardly_shows_teaches_nothing():
    aside = Targets(np.float32([[0.1, 0.5, 0.2, 0.4]]), np.ones(1), np.zeros((1, 28, 28), np.uint8))
    windows = np.array([[0, 29, 0, 112, 112], [0, 20, 0, 112, 112]])
    shown = ShownTargets(aside, windows, SIZE, images=np.zeros(2, int), mask_size=14)
    np.testing.assert_array_equal(shown(tf.constant([0, 1]))[1], [0, 1])


def test_without_masks_shapes_are_shown():
    found = Targets(ELLIPSES, np.float32([0.7]))
    window = np.array([WINDOWS[3]])
    shown, weights = ShownTargets(found, window, SIZE)(tf.constant([0, 0]))
    expected = Shape.in_windows(ELLIPSES, window, SIZE)
    np.testing.assert_allclose(shown, np.repeat(expected, 2, axis=0))
    np.testing.assert_allclose(weights, [0.7, 0.7])
