import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from gc_net.optimizers import (
    REFERENCE_MULTIPLIERS,
    SGD,
    Adam,
    AdamW,
    LeanAdam,
    warm_cosine,
)

MULTIPLIERS = [(r"fast/kernel$", 10.0), (r"bias$", 2.0)]


def variables():
    paths = ["fast/kernel", "fast/bias", "slow/kernel"]
    result = []
    for path in paths:
        layer, name = path.split("/")
        with keras.name_scope(layer):
            result.append(keras.Variable(np.zeros(3, "float32"), name=name))
    assert [variable.path for variable in result] == paths
    return result


@pytest.mark.parametrize("optimizer_class", [Adam, SGD])
def test_every_variable_moves_at_its_own_rate(optimizer_class):
    plain, multiplied = variables(), variables()
    base = keras.optimizers.Adam if optimizer_class is Adam else keras.optimizers.SGD
    gradients = [np.array([1.0, -2.0, 0.5], "float32")] * 3
    references = [base(0.01 * factor) for factor in (10.0, 2.0, 1.0)]
    optimizer = optimizer_class(0.01, multipliers=MULTIPLIERS)
    for _ in range(5):
        optimizer.apply(gradients, multiplied)
        for reference, variable in zip(references, plain, strict=True):
            reference.apply(gradients[:1], [variable])
    for expected, variable in zip(plain, multiplied, strict=True):
        np.testing.assert_allclose(variable, expected, rtol=1e-5)


def test_moments_are_those_of_plain_adam():
    plain, multiplied = keras.optimizers.Adam(0.01), Adam(0.01, multipliers=MULTIPLIERS)
    gradients = [np.array([1.0, -2.0, 0.5], "float32")] * 3
    plain.apply(gradients, variables())
    multiplied.apply(gradients, variables())
    assert len(plain.variables) == len(multiplied.variables)
    # All but the iteration and the rate: first and second moments.
    for expected, variable in zip(plain.variables[2:], multiplied.variables[2:], strict=True):
        np.testing.assert_array_equal(variable, expected)


@pytest.mark.parametrize("in_a_graph", [False, True])
@pytest.mark.parametrize(
    ("lean", "kind", "settings"),
    [
        (LeanAdam, keras.optimizers.Adam, {}),
        (LeanAdam, keras.optimizers.Adam, {"amsgrad": True}),
        (LeanAdam, keras.optimizers.Adam, {"beta_1": 0.8, "beta_2": 0.99, "global_clipnorm": 1.0}),
        (AdamW, keras.optimizers.AdamW, {"weight_decay": 0.1, "use_ema": True}),
        (AdamW, keras.optimizers.AdamW, {"gradient_accumulation_steps": 2}),
    ],
)
def test_what_is_computed_once_a_step_changes_no_update(lean, kind, settings, in_a_graph):
    found = []
    for optimizer_class in (lean, kind):
        moved, random = variables(), np.random.default_rng(0)
        schedule = keras.optimizers.schedules.CosineDecay(0.01, 6)
        optimizer = optimizer_class(schedule, **settings)
        optimizer.build(moved)
        step = tf.function(optimizer.apply) if in_a_graph else optimizer.apply
        for _ in range(6):
            step([tf.constant(random.normal(size=3), tf.float32) for _ in moved])
        found.append([np.asarray(each) for each in (*moved, *optimizer.variables)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_step_has_fewer_operations_than_that_of_keras():
    def operations(optimizer):
        moved = [keras.Variable(np.zeros(3, "float32")) for _ in range(16)]
        optimizer.build(moved)
        gradients = [tf.zeros(3)] * len(moved)
        step = tf.function(lambda: optimizer.apply(gradients)).get_concrete_function()
        return len(step.graph.get_operations())

    assert operations(LeanAdam(0.01)) < 0.7 * operations(keras.optimizers.Adam(0.01))


def test_configuration_keeps_the_multipliers():
    optimizer = Adam(0.01, multipliers=MULTIPLIERS)
    config = keras.saving.serialize_keras_object(optimizer)
    restored = keras.saving.deserialize_keras_object(config)
    assert type(restored) is Adam
    assert restored.multipliers == [list(pair) for pair in MULTIPLIERS]


@pytest.mark.parametrize(
    ("path", "factor"),
    [
        ("outputs/kernel", 10.0),
        ("detector/head/outputs/bias", 20.0),
        ("generator/sharpness", 10.0),
        ("trunk/stem_bn/beta", 2.0),
        ("trunk/conv1/bias", 2.0),
        ("trunk/conv1/kernel", 1.0),
        ("other_outputs/kernel", 1.0),
    ],
)
def test_reference_multipliers_are_the_authors(path, factor):
    assert Adam(0.01, multipliers=REFERENCE_MULTIPLIERS)._factor(path) == factor


@pytest.mark.parametrize("num_steps", [1, 4, 19, 20, 59, 100])
def test_a_warm_cosine_rises_for_a_twentieth_of_the_steps_then_falls_to_zero(num_steps):
    schedule = warm_cosine(0.3, num_steps)
    rise = num_steps // 20
    expected = [0.3 * step / rise for step in range(rise)]
    fall = num_steps - rise
    expected += [0.15 * (1 + math.cos(math.pi * step / fall)) for step in range(fall + 1)]
    found = [float(schedule(step)) for step in range(num_steps + 1)]
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("ours", "plain"),
    [
        (Adam(0.01), keras.optimizers.Adam(0.01)),
        (AdamW(0.01), keras.optimizers.AdamW(0.01)),
        (SGD(0.01, momentum=0.9), keras.optimizers.SGD(0.01, momentum=0.9)),
        (
            SGD(0.01, momentum=0.9, nesterov=True),
            keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True),
        ),
    ],
)
def test_a_large_variable_is_updated_as_by_keras(ours, plain):
    rng = np.random.default_rng(0)
    shape = 2**10, 2**10
    expected, found = (keras.Variable(np.ones(shape, "float32")) for _ in range(2))
    for optimizer, variable in ((plain, expected), (ours, found)):
        optimizer.build([variable])

    @tf.function
    def update(gradient):
        plain.apply([gradient], [expected])
        ours.apply([gradient], [found])

    for _ in range(3):
        update(tf.constant(rng.normal(size=shape).astype("float32")))
    assert np.abs(expected - 1.0).max() > 0.01  # it moved
    np.testing.assert_allclose(found, expected, atol=1e-6)
    for theirs, mine in zip(plain.variables[2:], ours.variables[2:], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-6)


def test_a_large_variable_takes_one_operation():
    variable = keras.Variable(np.zeros(2**20, "float32"))
    optimizer = Adam(0.01)
    optimizer.build([variable])
    graph = tf.function(
        lambda gradient: optimizer.apply([gradient], [variable])
    ).get_concrete_function(tf.zeros(2**20))
    types = {operation.type for operation in graph.graph.get_operations()}
    assert "ResourceApplyAdam" in types
    assert "Square" not in types
