"""Batch normalization is folded into what stands before it, and outputs stay as they were."""

import keras
import numpy as np
import pytest

import gc_net
from gc_net.backbones import BACKBONES
from gc_net.backbones.folding import folded
from gc_net.engines.folded import Folded
from tests.engines.test_engines import spread_weights

# The least side at which each backbone has a map left at its end.
SIZES = {"inception_v3": 75}


def num_normalizations(model):
    return sum(isinstance(layer, keras.layers.BatchNormalization) for layer in model.layers)


@pytest.mark.parametrize("backbone", BACKBONES.names)
def test_every_trunk_gives_the_same_without_a_single_normalization(backbone):
    size = SIZES.get(backbone, 32)
    keras.utils.set_random_seed(0)
    trunk = gc_net.backbones.get(backbone).trunk(size)
    random = np.random.default_rng(0)
    for layer in trunk.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            for weight in layer.weights:
                weight.assign(random.uniform(0.5, 1.5, weight.shape))
    images = random.normal(size=(2, size, size, 3)).astype("float32")
    expected = np.asarray(trunk(images, training=False))
    copy = folded(trunk)
    assert num_normalizations(copy) == 0
    scale = np.abs(expected).max()
    assert scale > 0
    np.testing.assert_allclose(copy(images, training=False) / scale, expected / scale, atol=1e-4)
    assert {layer.name for layer in copy.layers if layer.weights} == {
        layer.name
        for layer in trunk.layers
        if layer.weights and not isinstance(layer, keras.layers.BatchNormalization)
    }


@pytest.mark.parametrize("head", ["native", "position", "edges", "rated_edges"])
def test_every_head_of_a_detector_gives_the_same(head):
    detector = gc_net.Detector("tiny", image_size=32, head=head, weights=None)
    spread_weights(detector)
    images = np.random.default_rng(0).normal(size=(3, 32, 32, 3)).astype("float32")
    expected = detector.from_normalized(images)
    np.testing.assert_allclose(Folded().forward(detector)(images), expected, atol=1e-4)
    assert num_normalizations(folded(detector.head)) == 0


def test_what_others_look_at_before_the_normalization_is_left_as_it_is():
    inputs = keras.Input((8, 8, 3))
    before = keras.layers.Conv2D(4, 3, name="conv")(inputs)
    after = keras.layers.BatchNormalization(name="bn")(before)
    for outputs in ([after, before], keras.layers.Add()([after, before])):
        model = keras.Model(inputs, outputs)
        model.get_layer("bn").moving_mean.assign([1.0, 2.0, 3.0, 4.0])
        copy = folded(model)
        assert num_normalizations(copy) == 1
        images = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype("float32")
        for found, expected in zip(copy(images), model(images), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-5)


def test_depthwise_convolutions_with_several_outputs_a_channel_and_biases():
    inputs = keras.Input((8, 8, 3))
    x = keras.layers.DepthwiseConv2D(3, depth_multiplier=2, name="depthwise")(inputs)
    x = keras.layers.BatchNormalization(scale=False, name="bn1")(x)
    x = keras.layers.Conv2D(4, 1, name="conv")(x)
    x = keras.layers.BatchNormalization(center=False, name="bn2")(x)
    model = keras.Model(inputs, x)
    random = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(random.uniform(0.5, 1.5, weight.shape))
    images = random.normal(size=(2, 8, 8, 3)).astype("float32")
    copy = folded(model)
    assert num_normalizations(copy) == 0
    np.testing.assert_allclose(copy(images), model(images, training=False), rtol=1e-4, atol=1e-4)
