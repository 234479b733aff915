"""What a shape could reach at best."""

import numpy as np
import pytest

from gc_net import shapes
from gc_net.evaluation.best_shapes import best_mask_iou

SIZE = 64


def drawn(shape, *coefficients):
    return np.asarray(shapes.get(shape).masks(np.array(coefficients, "f4"), SIZE, SIZE))[..., 0] > 0


@pytest.mark.parametrize(
    ("shape", "coefficients"),
    [
        ("rectangle", (0.45, 0.5, 0.6, 0.3)),
        ("rotated_rectangle", (0.45, 0.5, 0.6, 0.25, 0.6)),
        ("rotated_ellipse", (0.5, 0.55, 0.7, 0.3, -0.9)),
    ],
)
def test_a_shape_fits_a_mask_of_its_own_kind_nearly_fully(shape, coefficients):
    masks = drawn(shape, coefficients)
    assert best_mask_iou(shapes.get(shape), masks)[0] > 0.97


def test_of_a_slanted_object_is_lower_for_a_box_than_for_what_can_turn():
    masks = drawn("rotated_rectangle", (0.5, 0.5, 0.8, 0.15, 0.7))
    upright = best_mask_iou(shapes.get("rectangle"), masks)[0]
    turned = best_mask_iou(shapes.get("rotated_ellipse"), masks)[0]
    assert upright < 0.4 < 0.8 < turned


def test_is_no_less_than_what_any_other_box_has():
    rng = np.random.default_rng(0)
    masks = drawn("rotated_ellipse", (0.4, 0.6, 0.6, 0.2, 0.5))
    best = best_mask_iou(shapes.get("rectangle"), masks)[0]
    low, high = np.sort(rng.uniform(size=(2, 4000, 2)), axis=0)
    boxes = np.concatenate([(low + high) / 2, high - low], axis=1).astype("f4")
    others = np.asarray(shapes.get("rectangle").masks(boxes, SIZE, SIZE))[..., 0] > 0
    union = (others | masks).sum(axis=(1, 2))
    assert best >= ((others & masks).sum(axis=(1, 2)) / union).max() - 0.005


def test_of_an_empty_mask_is_zero():
    masks = np.zeros((2, SIZE, SIZE), bool)
    masks[1, 20:40, 10:50] = True
    np.testing.assert_allclose(best_mask_iou(shapes.get("rectangle"), masks), [0, 1], atol=1e-6)
