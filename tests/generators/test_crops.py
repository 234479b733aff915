import keras
import numpy as np
import pytest
import tensorflow as tf

from gc_net import shapes
from gc_net.generators.crop_fitting import (
    KERNEL_RATE,
    crop_batch,
    crop_optimizer,
    initialize,
    kernel_matrix,
    matrix_kernel,
    rendered_crops,
    seed_maps,
    settle,
)
from gc_net.generators.crops import CropModel, crop_corner, crop_side
from gc_net.generators.fitting import compile_generator, mask_iou
from gc_net.generators.learned import LearnedGenerator
from gc_net.stages.generator import GeneratorConfig
from gc_net.training import loop

SHAPES = list(shapes.SHAPES)
every_shape = pytest.mark.parametrize("name", SHAPES)


def crop_model(name):
    """A model whose batch normalization has statistics like those of a trained one."""
    model = CropModel(LearnedGenerator(name, network="paper", weights=None))
    initialize(model, "reference", seed=3)
    random = np.random.default_rng(5)
    for index in range(1, 4):
        norm = model.network.stack.get_layer(f"norm{index}")
        norm.moving_mean.assign(random.normal(size=norm.moving_mean.shape))
        norm.moving_variance.assign(random.uniform(0.5, 2, norm.moving_variance.shape))
    return model


def whole_logits(model, coefficients):
    """The network's own logits, as Keras' layers compute them."""
    unit = 2 * model.generator.shape.to_unit(coefficients) - 1
    return model.network(unit, image_size=(224, 224)).numpy()


@every_shape
def test_a_crop_has_the_logits_of_the_whole_canvas(name):
    model = crop_model(name)
    first = np.array([[-1, -1], [11, 11], [-1, 5], [3, 7], [0, 10], [11, 2]])
    coefficients = model.generator.shape.sample(len(first), (1, 1), "full")
    crops = model((coefficients, tf.constant(first, tf.int32))).numpy()
    assert crops.shape[1:3] == (crop_side(),) * 2
    whole = whole_logits(model, coefficients)
    for crop, canvas, corner in zip(crops, whole, crop_corner(first), strict=True):
        rows, columns = (np.arange(start, start + crop_side()) for start in corner)
        # Where a crop reaches two pixels beyond the canvas, nothing is asked of it.
        rows_on, columns_on = ((axis >= 0) & (axis < 224) for axis in (rows, columns))
        assert rows_on.sum() >= crop_side() - 2 and columns_on.sum() >= crop_side() - 2
        expected = canvas[rows[rows_on]][:, columns[columns_on]]
        assert np.std(expected) > 0.01
        np.testing.assert_allclose(crop[rows_on][:, columns_on], expected, atol=1e-5)


@every_shape
def test_the_masks_of_crops_are_cut_out_of_the_whole_ones(name):
    shape = shapes.get(name)
    (coefficients, first), masks, weights = crop_batch(shape, 64, (4, 2), "reference")
    whole = np.pad(shape.masks(coefficients, 224, 224), ((0, 0), (2, 2), (2, 2), (0, 0)))
    side = crop_side()
    differing = []
    for mask, weight, corner, canvas in zip(
        masks.numpy(), weights.numpy(), crop_corner(first.numpy()) + 2, whole, strict=True
    ):
        expected = canvas[corner[0] : corner[0] + side, corner[1] : corner[1] + side]
        asked = weight > 0
        differing.append(np.mean(expected[asked] != mask[asked]))
        # Only what lies on the canvas counts.
        rows = np.arange(corner[0], corner[0] + side) - 2
        columns = np.arange(corner[1], corner[1] + side) - 2
        inside = [(axis >= 0) & (axis < 224) for axis in (rows, columns)]
        np.testing.assert_array_equal(asked, inside[0][:, None] & inside[1][None])
    # Rounding may move a pixel that lies exactly on the border.
    assert np.mean(differing) < 1e-4


@every_shape
def test_crops_hold_the_border_more_often_than_chance(name):
    shape = shapes.get(name)
    (coefficients, _), masks, _ = crop_batch(shape, 2000, (4, 3), "reference")

    def mixed(masks):
        share = np.mean(masks, axis=(1, 2, 3))
        return np.mean((share > 0) & (share < 1))

    # As many crops of the same shapes that lie anywhere.
    whole = shape.masks(coefficients, 224, 224).numpy()
    corners = np.random.default_rng(0).integers(0, 224 - crop_side(), [len(whole), 2])
    anywhere = [
        mask[row : row + crop_side(), column : column + crop_side()]
        for mask, (row, column) in zip(whole, corners, strict=True)
    ]
    assert mixed(masks) > 0.68
    assert mixed(masks) > 1.7 * mixed(anywhere)


def test_batches_of_crops_depend_on_seed_and_step_alone_and_shards_share_them():
    def batches(start=0, **shard):
        return list(rendered_crops("rectangle", "reference", 6, 3, 5, start=start, **shard))

    flat = tf.nest.flatten
    whole = batches()[2]
    for found, expected in zip(flat(batches(start=2)[0]), flat(whole), strict=True):
        np.testing.assert_array_equal(found, expected)
    shards = [batches(num_shards=2, shard_index=index)[2] for index in range(2)]
    for parts, expected in zip(zip(*map(flat, shards), strict=True), flat(whole), strict=True):
        np.testing.assert_array_equal(np.concatenate(parts), expected)


@pytest.mark.parametrize("name", [name for name in SHAPES if shapes.get(name).rotates])
def test_initial_seeds_pass_on_every_coefficient_to_any_two_by_three_neighbours(name):
    shape = shapes.get(name)
    kernel, bias = seed_maps(shape)
    unit = 2 * shape.to_unit(shape.sample(500, (0, 0), "reference")) - 1
    assert np.all(unit @ kernel + bias >= 0)  # none is cut off
    which = np.argmax(kernel, axis=0).reshape(12, 12)
    for height, width in [(2, 3), (3, 2)]:
        blocks = np.lib.stride_tricks.sliding_window_view(which, (height, width))
        for block in blocks.reshape(-1, 6):
            assert set(block) == set(range(shape.num_coefficients))


def test_initial_seeds_of_the_upright_rectangle_are_distances_from_its_sides():
    shape = shapes.get("rectangle")
    kernel, bias = seed_maps(shape)
    coefficients = shape.sample(50, (0, 0), "reference").numpy()
    seeds = np.maximum((2 * coefficients - 1) @ kernel + bias, 0).reshape(-1, 12, 12)
    left, top, right, bottom = np.asarray(shape.boxes(coefficients)).T[..., None, None]
    place = (np.arange(12) + 1.5) / 14
    x, y = place[None, None], place[None, :, None]
    expected = [[x - left, right - x], [y - top, bottom - y]]
    for row in range(2):
        for column in range(2):
            distance = np.broadcast_to(expected[row][column], seeds.shape)
            np.testing.assert_allclose(
                seeds[:, row::2, column::2],
                np.maximum(8 * distance + 0.5, 0)[:, row::2, column::2],
                atol=1e-5,
            )


@pytest.mark.parametrize("size, stride, count", [(3, 1, 1), (4, 2, 2)])
def test_the_matrix_of_a_kernel_maps_the_cells_below_to_what_they_become(size, stride, count):
    random = np.random.default_rng(0)
    kernel = random.normal(size=[size, size, 5, 3]).astype("float32")  # 3 channels to 5
    cells = size // stride
    maps = random.normal(size=[1, cells, cells, 3]).astype("float32")
    side = size + stride * (cells - 1)
    whole = tf.nn.conv2d_transpose(maps, kernel, [1, side, side, 5], stride, "VALID")[0]
    middle = slice(stride * (cells - 1), stride * (cells - 1) + count)  # all cells reach it
    matrix = kernel_matrix(tf.constant(kernel)).numpy()
    drawn = maps[0, ::-1, ::-1].reshape(-1) @ matrix
    np.testing.assert_allclose(drawn, whole.numpy()[middle, middle].ravel(), atol=1e-5)
    np.testing.assert_array_equal(matrix_kernel(matrix, kernel.shape), kernel)


def test_kernels_move_equally_far_in_all_directions_and_other_weights_as_by_adam():
    random = np.random.default_rng(0)
    kernel, other = (keras.Variable(np.zeros(shape, "float32")) for shape in ([4, 4, 6, 8], [5, 7]))
    twin = keras.Variable(np.zeros([5, 7], "float32"))
    rate = 1e-3
    schedule = keras.optimizers.schedules.ExponentialDecay(rate, 1, 1.0)
    optimizer = crop_optimizer(schedule)
    adam = keras.optimizers.Adam(schedule, beta_2=0.99)
    # One direction of a kernel's gradient is twenty times as steep as the others.
    left, _, right = np.linalg.svd(random.normal(size=[32, 24]), full_matrices=False)
    matrix = left * np.array([20.0] + 23 * [1.0]) @ right
    gradient = matrix_kernel(tf.constant(matrix, "float32"), kernel.shape)
    slope = random.normal(size=[5, 7]).astype("float32")
    optimizer.global_clipnorm = None
    optimizer.apply([gradient, tf.constant(slope)], [kernel, other])
    adam.apply([tf.constant(slope)], [twin])
    lengths = np.linalg.svd(kernel_matrix(kernel.value).numpy(), compute_uv=False)
    expected = KERNEL_RATE * rate * (32 / 24) ** 0.5
    assert np.all((lengths > 0.5 * expected) & (lengths < 1.5 * expected))
    np.testing.assert_allclose(other.numpy(), twin.numpy(), rtol=1e-3)


@pytest.mark.parametrize("name", [name for name in SHAPES if shapes.get(name).rotates])
def test_all_angles_and_places_are_drawn(name):
    shape = shapes.get(name)
    (coefficients, first_cells), *_ = crop_batch(shape, 2000, (4, 3), "reference")
    angle = coefficients[:, 4].numpy()
    share, _ = np.histogram(angle, bins=8, range=(-np.pi / 2, np.pi / 2))
    assert np.all(share > 0.09 * len(angle))
    x, y = coefficients[:, 0].numpy(), coefficients[:, 1].numpy()
    # Which part of a border is looked at does not depend on the shape.
    row, column = first_cells.numpy().T / 14
    pairs = np.corrcoef([angle, x, y, column - x, row - y])
    assert np.all(np.abs(pairs[0, 1:]) < 0.1)


def test_thin_shapes_are_drawn_more_often():
    shape = shapes.get("rotated_ellipse")
    (coefficients, _), *_ = crop_batch(shape, 400, (4, 3), "reference")
    plain = shape.sample(400, (4, 3), "reference")
    drawn, usual = (np.min(np.asarray(c)[:, 2:4], axis=1) < 0.1 for c in (coefficients, plain))
    assert np.mean(drawn) > 1.3 * np.mean(usual)


def test_settled_statistics_draw_the_same_and_are_those_of_a_batch():
    model = crop_model("rotated_ellipse")
    coefficients = model.generator.shape.sample(64, (9, 9), "reference")
    before = whole_logits(model, coefficients)
    settle(model, "reference", seed=1, num_samples=256)
    np.testing.assert_allclose(whole_logits(model, coefficients), before, atol=2e-4)
    unit = 2 * model.generator.shape.to_unit(coefficients) - 1
    by_batch = model.network(unit, image_size=(224, 224), training=True).numpy()
    assert np.corrcoef(by_batch.ravel(), before.ravel())[0, 1] > 0.99


def build(steps):
    keras.utils.set_random_seed(0)
    model = CropModel(LearnedGenerator("rectangle", network="paper", weights=None))
    initialize(model, "reference", seed=0)
    compile_generator(model, GeneratorConfig(sampler="reference", steps=steps))
    return model


def train(model, folder, steps, batch_size, callbacks=()):
    def batches(epoch, start_step, **shard):
        return rendered_crops(
            "rectangle", "reference", batch_size, steps, seed=0, start=start_step, **shard
        )

    loop.train(
        model,
        batches,
        num_steps=steps,
        steps_per_pass=steps,
        folder=str(folder),
        checkpoint_steps=1,
        callbacks=callbacks,
        verbose=0,
    )


class Killed(BaseException):
    """Not an error that anything may handle."""


def test_training_that_was_stopped_ends_the_same(tmp_path):
    def stop(batch, logs):
        if batch == 2:
            raise Killed

    steps = 4
    expected = build(steps)
    started = [variable.numpy() for variable in expected.network.trainable_variables]
    train(expected, tmp_path / "whole", steps, batch_size=2)
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=stop)
    with pytest.raises(Killed):
        train(build(steps), tmp_path / "stopped", steps, batch_size=2, callbacks=[callback])
    resumed = build(steps)
    train(resumed, tmp_path / "stopped", steps, batch_size=2)
    for found, wanted in zip(resumed.network.weights, expected.network.weights, strict=True):
        np.testing.assert_array_equal(found, wanted)
    trained = resumed.network.trainable_variables
    assert all(np.any(a != b.numpy()) for a, b in zip(started, trained, strict=True))


def test_training_on_crops_draws_better_masks(tmp_path):
    model = build(60)
    unseen = model.generator.shape.sample(32, (1, 0), "reference")
    before = mask_iou(model.generator, unseen).mean()
    train(model, tmp_path, 60, batch_size=16)
    assert mask_iou(model.generator, unseen).mean() > before + 0.1
