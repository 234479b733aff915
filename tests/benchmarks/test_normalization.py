"""All ways to normalize are steps of the same training, with other operations."""

import collections

import numpy as np
import pytest

from benchmarks import normalization
from benchmarks.normalization import BOTH, FOLDED, FUSED, PLAIN, WAYS


@pytest.mark.parametrize("what", [normalization.CLASSIFIER, normalization.DETECTOR])
def test_ways_differ_in_operations_and_not_in_the_loss(what):
    steps = normalization.steps(what, "tiny", 32, 8, train_from="conv3")
    assert tuple(steps) == WAYS
    losses = [float(step()["loss"]) for step in steps.values()]
    np.testing.assert_allclose(losses, losses[0], rtol=1e-4)

    def count(way, kind):
        operations = steps[way].get_concrete_function().graph.get_operations()
        return collections.Counter(operation.type for operation in operations)[kind]

    fused = {way: count(way, "FusedBatchNormV3") for way in WAYS}
    assert fused[PLAIN] == fused[FOLDED] == 0
    assert fused[FUSED] == fused[BOTH] > 0
    # Normalizations with stored statistics: two in the frozen layers of the trained network.
    roots = {way: count(way, "Rsqrt") for way in WAYS}
    assert roots[FOLDED] < roots[PLAIN] and roots[BOTH] < roots[FUSED]


def test_layers_are_as_before_afterwards():
    from gc_net.backbones import layers, network

    before = layers.BatchNormalization.call, network.call_folded
    with normalization.built(PLAIN):
        assert (layers.BatchNormalization.call, network.call_folded) != before
    assert (layers.BatchNormalization.call, network.call_folded) == before
