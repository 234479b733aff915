"""Recall and precision where images have several objects."""

import numpy as np
import pytest

from benchmarks import objects
from gc_net.data.splits import DataError

LEFT, RIGHT, FAR = [0, 0, 10, 10], [20, 0, 30, 10], [80, 80, 90, 90]


@pytest.mark.parametrize(
    ("found", "recall", "precision"),
    [
        ([LEFT], 1 / 2, 1),
        ([LEFT, RIGHT], 1, 1),
        ([LEFT, FAR], 1 / 2, 1 / 2),
        # An object that was found is not found again.
        ([LEFT, [0, 0, 10, 9], RIGHT], 1, 2 / 3),
        # A box around both has an IoU of a third with each.
        ([[0, 0, 30, 10]], 0, 0),
    ],
)
def test_each_object_counts_once(found, recall, precision):
    counts = objects.count_hits([np.array(found, float)], [np.array([LEFT, RIGHT], float)])
    assert counts == pytest.approx((recall, precision))


def test_images_are_counted_together():
    true = [np.array([LEFT, RIGHT], float), np.array([FAR], float)]
    found = [np.array([LEFT], float), np.array([LEFT, FAR], float)]
    assert objects.count_hits(found, true) == pytest.approx((2 / 3, 2 / 3))


def test_pairs_are_of_one_class_and_spread_over_the_classes():
    labels = np.array([1, 0, 1, 0, 2, 1, 0, 2])
    usable = np.array([True] * 6 + [False, True])
    assert objects.pairs_of(labels, usable, 9) == [(1, 3), (0, 2), (2, 5), (4, 7)]
    assert objects.pairs_of(labels, usable, 2) == [(1, 3), (2, 5)]


def test_joined_images_keep_their_boxes():
    small, large = np.full((60, 90, 3), 20, np.uint8), np.full((480, 240, 3), 20, np.uint8)
    small[10:40, 30:60], large[40:400, 20:200] = 250, 250
    boxes = np.array([[30, 10, 60, 40]], float), np.array([[20, 40, 200, 400]], float)
    picture, (one, other) = objects.joined((small, boxes[0]), (large, boxes[1]))
    assert picture.shape == (240, 360 + 120, 3)
    for left, top, right, bottom in (one, other):
        inside = picture[int(top) + 4 : int(bottom) - 4, int(left) + 4 : int(right) - 4]
        assert inside.min() > 240
    left, right = (np.argwhere(part[..., 0] > 127) for part in (picture[:, :360], picture[:, 360:]))
    np.testing.assert_allclose(one[:2], left.min(axis=0)[::-1], atol=2)
    np.testing.assert_allclose(other[2:], np.add(right.max(axis=0)[::-1], [361, 1]), atol=2)


def test_a_dataset_of_single_objects_is_refused():
    with pytest.raises(DataError, match="No test image of creatures has several true boxes"):
        next(objects.report(dataset="creatures"))
