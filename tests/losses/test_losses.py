import numpy as np
import pytest
import tensorflow as tf

from gc_net.losses import LOSS_TERMS
from gc_net.losses.edges import EdgeLoss, generalized_iou
from gc_net.losses.masks import DiceLoss, MaskLoss
from gc_net.losses.terms import AreaLoss, BackgroundLoss, ObjectLoss


def test_area_is_the_mean_of_the_areas():
    assert float(AreaLoss()(np.zeros(2), {"area": np.array([0.2, 0.4])})) == pytest.approx(0.3)


def test_object_is_the_cross_entropy_by_hand():
    logits = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    labels = np.array([2, 1])
    expected = (np.log(np.exp([1, 2, 3]).sum()) - 3 + np.log(3)) / 2
    assert float(ObjectLoss()(labels, {"object": logits})) == pytest.approx(expected, rel=1e-6)


def test_background_is_the_negative_entropy_by_hand():
    logits = np.log(np.array([[0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]]))
    expected = (0.5 * np.log(0.5) + 0.5 * np.log(0.25) - np.log(3)) / 2
    assert float(BackgroundLoss()(np.zeros(2), {"background": logits})) == pytest.approx(
        expected, rel=1e-6
    )


@pytest.mark.parametrize("name", ["object", "background"])
@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_confident_logits_give_finite_losses_and_gradients(name, scale):
    logits = tf.Variable(np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.5]], "float32") * scale)
    with tf.GradientTape() as tape:
        value = LOSS_TERMS.get(name)()(np.array([1, 1]), {name: logits})
    assert np.isfinite(value) and np.isfinite(tape.gradient(value, logits)).all()


def test_certain_background_costs_nothing_and_a_clueless_one_is_best():
    certain, clueless = np.array([[1e3, 0, 0, 0]]), np.zeros((1, 4))
    assert float(BackgroundLoss()(np.zeros(1), {"background": certain})) == pytest.approx(
        0, abs=1e-6
    )
    assert float(BackgroundLoss()(np.zeros(1), {"background": clueless})) == pytest.approx(
        -np.log(4), rel=1e-6
    )


def test_dice_by_hand_over_the_whole_batch():
    masks = np.array([[1.0, 1.0], [0.0, 0.0]])
    predictions = np.array([[0.5, 1.0], [0.5, 0.0]])
    expected = 1 - (2 * 1.5 + 1) / (0.25 + 1 + 0.25 + 2 + 1)
    assert float(DiceLoss()(masks, predictions)) == pytest.approx(expected, rel=1e-6)


def test_dice_of_a_perfect_or_empty_mask_is_zero():
    masks = np.array([[1.0, 0.0, 1.0]])
    assert float(DiceLoss()(masks, masks)) == pytest.approx(0, abs=1e-6)
    assert float(DiceLoss()(np.zeros((1, 3)), np.zeros((1, 3)))) == pytest.approx(0, abs=1e-6)


def test_mask_loss_sees_a_missed_tiny_shape_beside_a_large_one():
    masks = np.zeros((2, 8, 8, 1), "float32")
    masks[0, :, :6] = 1
    masks[1, 0, 0] = 1
    missed = masks.copy()
    missed[1] = 0
    dice = float(DiceLoss()(masks, missed))
    assert float(MaskLoss()(masks, missed)) > 10 * dice


class TestEdgeLoss:
    def test_it_is_the_sum_of_its_parts_by_hand(self):
        shown = {"edges": np.float32([[0.2, 0.2, 0.6, 0.4]]), "mask": np.full((1, 2, 2), 0.25)}
        found = {"edges": np.float32([[0.3, 0.2, 0.6, 0.4]]), "mask": np.zeros((1, 2, 2))}
        # One of four edges is off by a quarter of the width. The box found lies in the one shown.
        expected = 2 * 0.25 / 4 + (1 - 0.75) + 2 * np.log(2)
        assert float(EdgeLoss()(shown, found)) == pytest.approx(expected, rel=1e-4)
        weighed = float(EdgeLoss()(shown, found, np.float32([0.5])))
        assert weighed == pytest.approx(expected / 2, rel=1e-4)

    def test_boxes_apart_are_the_worse_the_farther(self):
        near, far, same = np.float32([[0.2, 0, 0.3, 1], [0.8, 0, 0.9, 1], [0, 0, 0.1, 1]])
        shown = np.float32([[0, 0, 0.1, 1]] * 3)
        found = np.asarray(generalized_iou(np.stack([near, far, same]), shown))
        np.testing.assert_allclose(found, [-1 / 3, -7 / 9, 1], atol=1e-4)

    def test_gradients_are_finite_where_ends_have_changed_places(self):
        edges = tf.Variable(np.float32([[0.7, 0.7, 0.3, 0.3], [0.5, 0.5, 0.5, 0.5]]))
        shown = {"edges": np.float32([[0.2, 0.2, 0.6, 0.4]] * 2), "mask": np.zeros((2, 2, 2))}
        with tf.GradientTape() as tape:
            loss = EdgeLoss()(shown, {"edges": edges, "mask": np.zeros((2, 2, 2), np.float32)})
        gradient = tape.gradient(loss, edges).numpy()
        assert np.isfinite(gradient).all()
        # Each end is drawn to where it belongs.
        assert (np.sign(gradient[0]) == [1, 1, -1, -1]).all()
