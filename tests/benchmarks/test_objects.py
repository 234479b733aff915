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


def test_a_dataset_of_single_objects_is_refused():
    with pytest.raises(DataError, match="No test image of creatures has several true boxes"):
        next(objects.report(dataset="creatures"))
