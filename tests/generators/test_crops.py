import numpy as np
import pytest
import tensorflow as tf

from gc_net import shapes
from gc_net.generators.crop_fitting import crop_batch, initialize, rendered_crops, settle
from gc_net.generators.crops import CropModel, crop_corner, crop_side
from gc_net.generators.learned import LearnedGenerator

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
@pytest.mark.parametrize("first", [(-1, -1), (11, 11), (-1, 5), (3, 7), (0, 10)])
def test_a_crop_has_the_logits_of_the_whole_canvas(name, first):
    model = crop_model(name)
    coefficients = model.generator.shape.sample(3, (1, 1), "full")
    crops = model((coefficients, tf.constant([first] * 3))).numpy()
    whole = np.pad(whole_logits(model, coefficients), ((0, 0), (2, 2), (2, 2), (0, 0)))
    row, column = (crop_corner(cell) + 2 for cell in first)
    side = crop_side()
    expected = whole[:, row : row + side, column : column + side]
    # Where a crop reaches two pixels beyond the canvas, nothing is asked of it.
    on_canvas = np.zeros([1, 228, 228, 1], bool)
    on_canvas[:, 2:-2, 2:-2] = True
    asked = np.broadcast_to(on_canvas[:, row : row + side, column : column + side], crops.shape)
    assert expected.shape == crops.shape and asked.mean() > 0.85
    assert np.std(expected[asked]) > 0.1
    np.testing.assert_allclose(crops[asked], expected[asked], atol=1e-5)


def test_different_crops_of_one_batch_are_each_in_their_place():
    model = crop_model("rotated_ellipse")
    coefficients = tf.repeat(model.generator.shape.sample(1, (2, 1), "reference"), 3, axis=0)
    first = tf.constant([[1, 8], [8, 1], [5, 5]])
    together = model((coefficients, first)).numpy()
    for index in range(3):
        alone = model((coefficients[:1], first[index : index + 1])).numpy()
        np.testing.assert_allclose(together[index], alone[0], atol=1e-5)


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
def test_most_crops_hold_some_of_the_border(name):
    _, masks, _ = crop_batch(shapes.get(name), 400, (4, 3), "reference")
    share = np.mean(masks, axis=(1, 2, 3))
    assert np.mean((share > 0) & (share < 1)) > 0.7


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


@every_shape
def test_initial_seeds_pass_on_every_coefficient_to_any_two_by_three_neighbours(name):
    model = crop_model(name)
    shape = model.generator.shape
    seed = model.network.stack.get_layer("seed")
    unit = 2 * shape.to_unit(shape.sample(500, (0, 0), "reference")) - 1
    assert np.all(unit @ seed.kernel.numpy() + seed.bias.numpy() >= 0)  # none is cut off
    which = np.argmax(seed.kernel.numpy(), axis=0).reshape(12, 12)
    for height, width in [(2, 3), (3, 2)]:
        blocks = np.lib.stride_tricks.sliding_window_view(which, (height, width))
        for block in blocks.reshape(-1, 6):
            assert set(block) == set(range(shape.num_coefficients))


def test_settled_statistics_draw_the_same_and_are_those_of_a_batch():
    model = crop_model("rotated_ellipse")
    coefficients = model.generator.shape.sample(64, (9, 9), "reference")
    before = whole_logits(model, coefficients)
    settle(model, "reference", seed=1, num_samples=256)
    np.testing.assert_allclose(whole_logits(model, coefficients), before, atol=2e-4)
    unit = 2 * model.generator.shape.to_unit(coefficients) - 1
    by_batch = model.network(unit, image_size=(224, 224), training=True).numpy()
    assert np.corrcoef(by_batch.ravel(), before.ravel())[0, 1] > 0.99


def test_training_on_crops_draws_better_masks():
    from gc_net.generators.fitting import compile_generator, mask_iou
    from gc_net.stages.generator import GeneratorConfig

    model = CropModel(LearnedGenerator("rectangle", network="paper", weights=None))
    initialize(model, "reference", seed=0)
    compile_generator(model, GeneratorConfig(sampler="reference", steps=60))
    unseen = model.generator.shape.sample(32, (1, 0), "reference")
    before = mask_iou(model.generator, unseen).mean()
    for inputs, masks, weights in rendered_crops("rectangle", "reference", 16, 60, seed=0):
        model.train_on_batch(inputs, masks, weights)
    assert mask_iou(model.generator, unseen).mean() > before + 0.1
