import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from gc_net.generators.learned import LearnedGenerator, shipped_weights
from gc_net.generators.networks import NETWORKS
from gc_net.stages.config import TrainConfig
from gc_net.stages.generator import GeneratorStage


def built(network, **settings):
    config = TrainConfig()
    detector = dataclasses.replace(config.detector, shape="rectangle", generator_network=network)
    generator = dataclasses.replace(config.generator, sampler="reference", **settings)
    run = SimpleNamespace(
        config=dataclasses.replace(config, detector=detector, generator=generator),
        settings=generator,
    )
    return GeneratorStage().build(run, num_steps=1).network


@pytest.mark.parametrize("network", NETWORKS)
def test_a_training_goes_on_from_the_weights_it_is_given(network):
    path = shipped_weights("rectangle", network)
    expected = LearnedGenerator("rectangle", network=network, weights=path).network
    new = built(network)
    for found, wanted in zip(built(network, start=path).weights, expected.weights, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert any(
        np.any(one.numpy() != other.numpy())
        for one, other in zip(new.weights, expected.weights, strict=True)
    )


def test_a_start_that_is_missing_is_named():
    with pytest.raises((ValueError, OSError), match="no_such_file"):
        built("implicit", start="no_such_file.npz")
