"""Whether confidences rank: the AUROC, and CorLoc by fifths."""

import numpy as np
import pytest

from gc_net.evaluation.ranking import ranking
from gc_net.metrics import auroc


def test_auroc_is_the_share_of_pairs_in_the_right_order():
    rng = np.random.default_rng(0)
    scores, right = rng.integers(0, 8, 60), rng.random(60) < 0.7
    pairs = [
        1.0 if a > b else 0.5 if a == b else 0.0 for a in scores[right] for b in scores[~right]
    ]
    assert auroc(scores, right) == pytest.approx(np.mean(pairs))
    assert auroc([1, 2, 3, 4], [False, False, True, True]) == 1
    assert auroc([1, 1, 1], [True, False, True]) == 0.5
    assert np.isnan(auroc([1, 2], [True, True]))


def test_fifths_go_from_the_least_sure_to_the_surest():
    confidence = np.linspace(0, 1, 50)[::-1]
    right = confidence > 0.5
    right[confidence > 0.95] = False
    found = ranking(confidence, right)
    assert [part["corloc"] for part in found["fifths"]] == [0, 0, 50, 100, 70]
    assert [part["num_images"] for part in found["fifths"]] == [10] * 5
    assert found["fifths"][0]["confidence"] == [0, pytest.approx(9 / 49, abs=1e-4)]
    low, high = found["auroc_ci95"]
    assert low < found["auroc"] < high


def test_where_all_are_right_there_is_nothing_to_rank():
    found = ranking(np.array([0.2, 0.4]), np.array([True, True]))
    assert found["auroc"] is None and found["auroc_ci95"] is None
    assert [part["corloc"] for part in found["fifths"]] == [100, 100]
