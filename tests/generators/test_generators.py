import json
import math

import cv2
import keras
import numpy as np
import pytest
import tensorflow as tf

from gc_net import Classifier, Detector, GCNet, generators, shapes
from gc_net.generators import GENERATORS
from gc_net.generators.base import Generator
from gc_net.generators.fitting import mask_iou, measure_generator, rendered_batches
from gc_net.generators.learned import LearnedGenerator, shipped_weights
from gc_net.generators.model import ModelGenerator
from gc_net.generators.networks import NETWORKS
from gc_net.shapes.base import pixel_grid

SHAPES = list(shapes.SHAPES)
every_shape = pytest.mark.parametrize("name", SHAPES)

READY = {
    "model": lambda name, size: ModelGenerator(name, size, epsilon=0.02),
    "learned": LearnedGenerator,
}
EVERY = {
    **READY,
    "learned-paper": lambda name, size: LearnedGenerator(name, size, "paper", weights=None),
}
every_generator = pytest.mark.parametrize("build", EVERY.values(), ids=EVERY.keys())
every_ready_generator = pytest.mark.parametrize("build", READY.values(), ids=READY.keys())


@every_shape
@every_generator
@pytest.mark.parametrize("size", [(128, 128), (224, 224), (299, 299)])
def test_masks_have_the_images_size_and_values_from_0_to_1(name, build, size):
    generator = build(name, size)
    masks = np.asarray(generator(generator.shape.sample(3, (0, 0))))
    assert masks.shape == (3, *size, 1)
    assert masks.min() >= 0 and masks.max() <= 1


@every_shape
@every_ready_generator
def test_mask_is_1_inside_and_0_outside_away_from_the_edge(name, build):
    generator = build(name, (64, 64))
    shape = generator.shape
    coefficients = np.array([[0.45, 0.55, 0.6, 0.4, 0.4][: shape.num_coefficients]], "float32")
    masks = np.asarray(generator(coefficients))[..., 0]
    grown, shrunk = coefficients.copy(), coefficients.copy()
    grown[:, 2:4] *= 1.25
    shrunk[:, 2:4] *= 0.75
    inside = np.asarray(shape.masks(shrunk, 64, 64))[..., 0] > 0.5
    outside = np.asarray(shape.masks(grown, 64, 64))[..., 0] < 0.5
    assert masks[inside].min() > 0.8
    assert masks[outside].max() < 0.2


@every_shape
@every_ready_generator
def test_mask_agrees_with_opencvs_filled_raster(name, build):
    size, fine = 96, 8
    generator = build(name, (size, size))
    coefficients = generator.shape.sample(30, (3, 1), "reference")
    drawn = np.asarray(generator(coefficients))[..., 0] > 0.5
    iou = []
    for mask, outline in zip(drawn, np.asarray(generator.shape.outline(coefficients)), strict=True):
        canvas = np.zeros((size * fine, size * fine), np.uint8)
        cv2.fillPoly(canvas, [np.round(outline * size * fine - 0.5).astype(np.int32)], 1)
        expected = canvas[fine // 2 :: fine, fine // 2 :: fine] > 0
        iou.append((mask & expected).sum() / (mask | expected).sum())
    assert np.mean(iou) > 0.95 and np.min(iou) > 0.75


@every_shape
@every_ready_generator
def test_closed_form_box_encloses_the_drawn_mask_and_is_tight(name, build):
    size = 128
    generator = build(name, (size, size))
    coefficients = np.array(
        [[0.5, 0.5, 0.6, 0.4, 0.0], [0.45, 0.55, 0.5, 0.35, 0.6], [0.5, 0.45, 0.3, 0.7, -0.4]],
        "float32",
    )[:, : generator.shape.num_coefficients]
    masks = np.asarray(generator(coefficients))[..., 0] > 0.5
    for mask, box in zip(masks, np.asarray(generator.shape.boxes(coefficients)), strict=True):
        x, y, width, height = cv2.boundingRect(mask.astype(np.uint8))
        # A corner may lie between pixel centres, and a learned edge within a pixel or two.
        np.testing.assert_allclose(box * size, [x, y, x + width, y + height], atol=3)


@every_shape
@every_generator
@pytest.mark.parametrize("unit", [0.0, 0.5, 1.0])
def test_gradients_are_finite_wherever_a_detector_may_go(name, build, unit):
    generator = build(name, (32, 32))
    shape = generator.shape
    coefficients = tf.Variable(shape.from_unit(tf.fill((2, shape.num_coefficients), unit)))
    with tf.GradientTape() as tape:
        masks = generator(coefficients)
        value = tf.reduce_sum(masks**2)
    assert np.isfinite(masks).all()
    assert np.isfinite(tape.gradient(value, coefficients)).all()


@every_shape
@every_generator
def test_saved_generator_draws_the_same(name, build, tmp_path):
    generator = build(name, (32, 32))
    inputs = keras.Input((generator.shape.num_coefficients,))
    path = tmp_path / "generator.keras"
    keras.Model(inputs, generator(inputs)).save(path)
    coefficients = generator.shape.sample(4, (1, 1))
    restored = keras.saving.load_model(path)
    np.testing.assert_array_equal(restored(coefficients), generator(coefficients))


# The analytic generator.


@every_shape
def test_model_generator_is_the_arctangent_of_the_level_set(name):
    generator = ModelGenerator(name, (20, 30), epsilon=0.1)
    coefficients = generator.shape.sample(5, (1, 2))
    level = np.asarray(generator.shape.level_set(coefficients, *pixel_grid(20, 30)))
    expected = 0.5 - np.arctan(level / 0.1) / np.pi
    np.testing.assert_allclose(np.asarray(generator(coefficients))[..., 0], expected, atol=1e-6)


def test_model_mask_values_at_the_initial_epsilon():
    # φ = −1 at an ellipse's centre, 0 on its border, 1 at √2 times its half axis.
    generator = ModelGenerator("rotated_ellipse", (1, 1), epsilon=0.1)
    half = 0.2
    for distance, expected in [(0.0, 0.968), (half, 0.5), (half * math.sqrt(2), 0.032)]:
        coefficients = np.array([[0.5 - distance, 0.5, 2 * half, 0.3, 0.0]], "float32")
        assert float(generator(coefficients)[0, 0, 0, 0]) == pytest.approx(expected, abs=1e-3)


@every_shape
def test_model_generator_has_no_variable_but_its_sharpness(name):
    generator = ModelGenerator(name, 32)
    assert [weight.shape for weight in generator.weights] == [()]
    assert float(generator.epsilon) == pytest.approx(0.1)


def test_epsilon_stays_positive_and_moves_as_the_authors_do_at_first():
    generator = ModelGenerator("rectangle", 8, epsilon=0.1)
    generator.sharpness.assign(0.01)  # their k, from 10 to 10.01
    assert float(generator.epsilon) == pytest.approx(1 / 10.01, rel=1e-5)
    for value in (-1e6, -1e2, 1e2, 1e6):
        generator.sharpness.assign(value)
        assert 0 < float(generator.epsilon) < np.inf


def test_epsilon_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="must be positive"):
        ModelGenerator("rectangle", 8, epsilon=0.0)


def test_smaller_epsilon_comes_closer_to_the_exact_mask():
    shape = shapes.get("rotated_ellipse")
    coefficients = shape.sample(8, (1, 1), "reference")
    exact = shape.masks(coefficients, 64, 64)
    errors = [
        float(tf.reduce_mean(tf.abs(ModelGenerator(shape, 64, epsilon=e)(coefficients) - exact)))
        for e in (1.0, 0.1, 0.01, 0.001)
    ]
    assert errors == sorted(errors, reverse=True) and errors[-1] < 0.005


@pytest.mark.parametrize("name", ["rectangle", "rotated_rectangle", "rotated_ellipse"])
def test_gradients_equal_the_papers_hand_derived_derivatives(name):
    """The appendix, with its sign (M is 1 inside) and the factor 1/ε that it drops."""
    epsilon, n = 0.1, 12
    generator = ModelGenerator(name, n, epsilon=epsilon)
    values = [0.47, 0.52, 0.63, 0.38, 0.3][: generator.shape.num_coefficients]
    coefficients = tf.Variable([values])
    with tf.GradientTape() as tape:
        masks = generator(coefficients)[0, ..., 0]
    jacobian = tape.jacobian(masks, coefficients)[:, :, 0].numpy()  # [n, n, k]

    cx, cy, a, b = values[:4]
    theta = values[4] if generator.shape.rotates else 0.0
    y, x = (np.mgrid[:n, :n] + 0.5) / n
    cosine, sine = np.cos(theta), np.sin(theta)
    along = (x - cx) * cosine + (y - cy) * sine
    across = (y - cy) * cosine - (x - cx) * sine
    alpha, beta = along / a, across / b
    if name == "rotated_ellipse":
        phi = 4 * alpha**2 + 4 * beta**2 - 1
        by_alpha, by_beta = 8 * alpha, 8 * beta
    else:
        phi = np.abs(alpha + beta) + np.abs(alpha - beta) - 1
        by_alpha = np.where(np.abs(alpha) > np.abs(beta), 2 * np.sign(alpha), 0.0)
        by_beta = np.where(np.abs(beta) > np.abs(alpha), 2 * np.sign(beta), 0.0)
    by_phi = -1 / (np.pi * epsilon * (1 + (phi / epsilon) ** 2))
    expected = [
        by_phi * (by_alpha * -cosine / a + by_beta * sine / b),
        by_phi * (by_alpha * -sine / a + by_beta * -cosine / b),
        by_phi * by_alpha * -alpha / a,
        by_phi * by_beta * -beta / b,
        by_phi * (by_alpha * across / a + by_beta * -along / b),
    ]
    for index in range(len(values)):
        np.testing.assert_allclose(jacobian[..., index], expected[index], rtol=2e-3, atol=2e-3)


def test_gradient_of_epsilon_equals_the_papers():
    generator = ModelGenerator("rotated_ellipse", 8, epsilon=0.1)
    coefficients = generator.shape.sample(1, (0, 3), "reference")
    with tf.GradientTape() as tape:
        masks = generator(coefficients)[..., 0]
    by_sharpness = tape.jacobian(masks, generator.sharpness.value).numpy()
    phi = np.asarray(generator.shape.level_set(coefficients, *pixel_grid(8, 8)))
    # ∂M/∂ε = φ/(π·ε²·(1 + (φ/ε)²)) for M = ½ − arctan(φ/ε)/π, and ∂ε/∂v = −ε² at v = 0.
    by_epsilon = phi / (np.pi * 0.1**2 * (1 + (phi / 0.1) ** 2))
    np.testing.assert_allclose(by_sharpness, -(0.1**2) * by_epsilon, rtol=1e-4, atol=1e-6)


def test_authors_grid_puts_the_first_and_last_pixel_on_the_border():
    x, y = pixel_grid(3, 5, "corners")
    np.testing.assert_allclose(np.ravel(x), [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(np.ravel(y), [0, 0.5, 1])


# The learned generator.


@pytest.mark.parametrize(
    ("name", "parameters"), [("rectangle", 660_304), ("rotated_ellipse", 660_448)]
)
def test_paper_network_has_the_papers_number_of_parameters(name, parameters):
    generator = LearnedGenerator(name, network="paper", weights=None)
    trained = sum(math.prod(weight.shape) for weight in generator.trainable_weights)
    assert trained == parameters


def test_implicit_network_has_the_number_of_parameters_it_says():
    generator = LearnedGenerator("rotated_ellipse", network="implicit", weights=None)
    assert generator.count_params() == 42_065


@pytest.mark.parametrize("name", [name for name in SHAPES if shipped_weights(name, "implicit")])
def test_shipped_weights_draw_as_well_as_they_say(name):
    generator = LearnedGenerator(name)
    measured = measure_generator(generator, num_samples=300)
    assert measured["reference"]["mean_iou"] > 0.97
    assert measured["crossing"]["mean_iou"] > 0.95


@pytest.mark.parametrize("name", [name for name in SHAPES if shipped_weights(name, "paper")])
def test_the_papers_network_draws_as_well_as_its_record_says(name):
    generator = LearnedGenerator(name, network="paper")
    coefficients = generator.shape.sample(200, (77, 0), "reference")
    with open(shipped_weights(name, "paper").replace(".npz", ".json"), encoding="utf-8") as file:
        said = json.load(file)["iou"]["reference"]["mean_iou"]
    assert said > 0.9
    assert mask_iou(generator, coefficients, 224).mean() == pytest.approx(said, abs=0.015)


def test_learned_masks_stay_float32_under_mixed_precision():
    policy = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy("mixed_bfloat16")
    try:
        for network in NETWORKS:
            generator = LearnedGenerator("rotated_ellipse", 64, network, weights=None)
            assert generator(generator.shape.sample(2, (0, 0))).dtype == tf.float32
        assert ModelGenerator("rectangle", 16)(np.full((1, 4), 0.5)).dtype == tf.float32
    finally:
        keras.mixed_precision.set_dtype_policy(policy)


@every_shape
@every_ready_generator
def test_masks_are_the_same_under_mixed_precision(name, build):
    def drawn():
        generator = build(name, (64, 64))
        return generator(generator.shape.sample(8, (0, 0)))

    expected = drawn()
    policy = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy("mixed_bfloat16")
    try:
        found = drawn()
    finally:
        keras.mixed_precision.set_dtype_policy(policy)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_rendered_batches_depend_on_seed_and_step_alone():
    def batches(seed, start=0):
        return list(rendered_batches("rectangle", "full", 16, 4, 3, seed, start=start))

    (coefficients, masks), (later, _) = batches(5)[0], batches(5)[2]
    assert masks.shape == (4, 16, 16, 1) and coefficients.shape == (4, 4)
    np.testing.assert_array_equal(batches(5, start=2)[0][0], later)
    assert not np.array_equal(batches(6)[0][0], coefficients)


@every_shape
def test_rendered_masks_are_those_of_the_shape_but_for_rounding_on_its_border(name):
    shape = shapes.get(name)
    x, y = pixel_grid(48, 48)
    for coefficients, masks in rendered_batches(shape, "full", 48, 64, 2, seed=7):
        level = np.asarray(shape.level_set(coefficients, x, y))[..., None]
        # A pixel may fall on either side where its level is zero but for rounding.
        clear = np.abs(level) > 1e-5
        assert clear.mean() > 0.999 and 0 < masks.numpy().mean() < 1
        plain = np.asarray(shape.masks(coefficients, 48, 48))
        np.testing.assert_allclose(masks.numpy()[clear], plain[clear], atol=1e-5)


def test_shards_render_their_own_rows_of_the_batch():
    def rendered(**shard):
        return next(iter(rendered_batches("rotated_ellipse", "full", 16, 6, 1, seed=3, **shard)))

    shards = [rendered(num_shards=3, shard_index=index) for index in range(3)]
    for whole, parts in zip(rendered(), zip(*shards, strict=True), strict=True):
        np.testing.assert_array_equal(whole, np.concatenate(parts))


def test_iou_of_exact_masks_is_1_and_of_others_is_counted():
    class Exact:
        shape = shapes.get("rectangle")

        def __call__(self, coefficients, image_size):
            return self.shape.masks(coefficients, *image_size)

    class Half(Exact):
        def __call__(self, coefficients, image_size):
            half = coefficients * tf.constant([1.0, 1.0, 0.5, 1.0])
            return super().__call__(half, image_size)

    coefficients = np.array([[0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]], "float32")
    np.testing.assert_array_equal(mask_iou(Exact(), coefficients, 16), [1, 1])
    np.testing.assert_allclose(mask_iou(Half(), coefficients, 16), [0.5, 0.5])


def test_network_without_shipped_weights_says_how_to_train_it(monkeypatch, tmp_path):
    monkeypatch.setattr("gc_net.generators.learned.WEIGHTS", str(tmp_path))
    with pytest.raises(
        ValueError, match=r"train_generator --detector_shape=rectangle .*_network=paper"
    ):
        LearnedGenerator("rectangle", network="paper")


def test_unknown_generator_and_network_list_the_known_ones():
    with pytest.raises(ValueError, match="Known ones: model, learned"):
        generators.get("neural", shape="rectangle")
    with pytest.raises(ValueError, match="Known ones: implicit, paper"):
        LearnedGenerator("rectangle", network="deep")


RUN = {"epsilon": 0.03, "grid": "corners", "network": "implicit", "weights": "shipped"}


def test_each_generator_is_given_what_it_takes_of_a_runs_settings():
    model = generators.for_detector("model", "rectangle", 32, **RUN)
    assert (model.initial_epsilon, model.grid, model.image_size) == (0.03, "corners", (32, 32))
    learned = generators.for_detector("learned", "rectangle", 32, **RUN)
    assert learned.network_name == "implicit" and learned.shape.name == "rectangle"


def test_a_generator_of_ones_own_is_built_and_trained_with():
    class Exact(Generator, keras.layers.Layer):
        kind = "exact"

        def __init__(self, shape, image_size):
            super().__init__(name="generator")
            self.shape, self.image_size = shapes.get(shape), (image_size, image_size)

        def call(self, coefficients):
            return self.shape.masks(coefficients, *self.image_size)

    with GENERATORS.register("exact", Exact):
        generator = generators.for_detector("exact", "rectangle", 32, **RUN)
    model = GCNet(
        Detector("tiny", "rectangle", 32, weights=None),
        generator,
        Classifier("tiny", num_classes=3, image_size=32, weights=None),
    )
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    logs = model.train_on_batch(np.zeros([2, 32, 32, 3], "float32"), np.arange(2), return_dict=True)
    assert np.isfinite(logs["loss"]) and "epsilon" not in logs
