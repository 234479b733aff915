"""A step through frozen layers is the same with their normalizations folded in."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import gc_net
from gc_net.backbones.folding import call_folded
from gc_net.backbones.layers import BatchNormalization
from gc_net.generators.model import ModelGenerator
from gc_net.optimizers import Adam
from tests.engines.test_engines import spread_weights

CLOSE = 1e-5


def images_of(size, count=4):
    return np.random.default_rng(0).integers(0, 256, (count, size, size, 3)).astype("uint8")


def gradients(function, inputs, variables):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = function(inputs)
        # Not their squares, whose mean a normalization keeps.
        loss = tf.reduce_mean(outputs * tf.random.stateless_normal(outputs.shape, [1, 1]))
    return outputs, tape.gradient(loss, [inputs, *(variable.value for variable in variables)])


def assert_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        scale = max(float(np.abs(other).max()), 1e-6)
        np.testing.assert_allclose(one / scale, other / scale, atol=CLOSE)


def test_outputs_of_a_frozen_trunk_stay_the_same():
    network = gc_net.Classifier("efficientnet_lite0", 3, 64)
    normalized = network.normalize(images_of(64))
    expected = network.trunk(normalized, training=False)
    assert_close([call_folded(network.trunk, normalized)], [expected])


def test_a_step_that_trains_some_layers_is_that_of_the_network_itself():
    keras.utils.set_random_seed(0)
    network = gc_net.Classifier("small", 3, 32, weights=None)
    spread_weights(network)
    network.freeze_before("conv3")
    names = [variable.path for variable in network.variables]
    normalized = tf.constant(network.normalize(images_of(32)))
    before = network.get_weights()

    def itself(inputs):
        return network.head(network.trunk(inputs, training=True), training=False)

    def folded(inputs):
        return network.head(call_folded(network.trunk, inputs, training=True), training=False)

    variables = network.trainable_variables
    expected = gradients(itself, normalized, variables)
    statistics = network.get_weights()
    network.set_weights(before)
    found = gradients(folded, normalized, variables)
    assert_close(tf.nest.flatten(found), tf.nest.flatten(expected))
    # The stored statistics have moved, alike, where layers are trained, and nothing else has.
    moved = [not np.array_equal(*pair) for pair in zip(before, statistics, strict=True)]
    assert any(moved) and not all(moved)
    for one, other in zip(network.get_weights(), statistics, strict=True):
        np.testing.assert_allclose(one, other, atol=CLOSE)
    assert [variable.path for variable in network.variables] == names


def test_the_judge_of_a_step_is_folded_and_its_losses_are_the_same(monkeypatch):
    def losses(plain):
        keras.utils.set_random_seed(0)
        parts = {"image_size": 32, "weights": None}
        model = gc_net.GCNet(
            gc_net.Detector("tiny", "rotated_ellipse", **parts),
            ModelGenerator("rotated_ellipse", 32),
            gc_net.Classifier("small", 3, **parts),
        )
        spread_weights(model.classifier)
        model.detector.freeze_before("relu1")
        calls = []
        if plain:
            judge = model.classifier

            def whole(normalized, training=False, folded=False):
                calls.append(folded)
                return judge.head(judge.trunk(normalized, training=False), training=False)

            monkeypatch.setattr(judge, "from_normalized", whole)
        model.compile(Adam(1e-3))
        labels = np.arange(4) % 3
        history = model.fit(images_of(32), labels, batch_size=2, epochs=3, shuffle=False, verbose=0)
        assert not plain or all(calls)
        return history.history["loss"]

    np.testing.assert_allclose(losses(plain=False), losses(plain=True), atol=CLOSE)


@pytest.mark.parametrize("options", [{}, {"scale": False}, {"center": False, "momentum": 0.9}])
@pytest.mark.parametrize("shape", [(8, 5, 6, 3), (4, 7, 3)])
def test_normalization_is_that_of_keras(shape, options):
    inputs = tf.random.stateless_normal(shape, [0, 0], 2.0, 3.0)
    found = []
    for kind in (keras.layers.BatchNormalization, BatchNormalization):
        layer = kind(**options)
        layer.build(shape)
        for weight in layer.weights:
            weight.assign(np.linspace(0.5, 1.5, shape[-1]))

        def call(inputs, layer=layer):
            return layer(inputs, training=True)

        outputs, found_gradients = gradients(call, inputs, layer.trainable_variables)
        found.append([outputs, layer(inputs), *found_gradients, *layer.get_weights()])
    assert_close(found[1], found[0])


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_normalization_in_half_precision_is_that_of_keras(policy):
    inputs = tf.random.stateless_normal((8, 5, 6, 3), [0, 0])
    plain, fused = (
        kind(dtype=policy)(inputs, training=True)
        for kind in (keras.layers.BatchNormalization, BatchNormalization)
    )
    assert fused.dtype == plain.dtype
    np.testing.assert_allclose(tf.cast(fused, "float32"), tf.cast(plain, "float32"), atol=2e-2)
