import numpy as np
import pytest
import tensorflow as tf

from gc_net.losses import LOSS_TERMS
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
