"""The other ways to depthwise convolution's gradients give the same gradients."""

import numpy as np
import pytest

from benchmarks import depthwise


@pytest.mark.parametrize("kernel_size", [3, 5])
@pytest.mark.parametrize(("size", "stride"), [(8, 1), (8, 2), (6, 2), (7, 1)])
def test_gradients_equal_those_of_tensorflow(size, stride, kernel_size):
    results = {
        name: way().numpy()
        for name, way in depthwise.ways(size, 4, kernel_size, stride, batch_size=2).items()
    }
    assert np.abs(results[depthwise.INPUT]).max() > 0.1
    for one, other in [
        (depthwise.INPUT, depthwise.OTHER_INPUT),
        (depthwise.FILTER, depthwise.OTHER_FILTER),
    ]:
        np.testing.assert_allclose(results[one], results[other], atol=1e-4)


def test_layers_are_counted_by_kind():
    found = depthwise.layers("efficientnet_lite0", 64)
    assert sum(found.values()) == 16
    assert found[32, 96, 3, 2] == 1 and found[2, 1152, 5, 1] == 3


def test_a_backbone_without_such_layers_is_refused():
    with pytest.raises(ValueError, match="'tiny' has no depthwise convolutions"):
        depthwise.layers("tiny", 32)
