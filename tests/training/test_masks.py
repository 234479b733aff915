"""Random masks: how many images, how much of them, and what fills the rest."""

import numpy as np
import pytest
import tensorflow as tf

from gc_net.shapes import SHAPES
from gc_net.training import devices
from gc_net.training.masks import RandomMasks

IMAGES = np.ones((400, 24, 24, 3), np.float32)


def shown(layer, images=IMAGES):
    """Return the part of each image [N] that is shown, and check that the rest is mean colour."""
    masked = np.asarray(layer(images, training=True))
    assert set(np.unique(masked)) <= {0.0, 1.0}
    assert (masked == masked[..., :1]).all()
    return masked[..., 0].mean(axis=(1, 2))


@pytest.mark.parametrize("shape", SHAPES.names)
def test_the_given_part_of_the_images_is_masked(shape):
    part = shown(RandomMasks(shape, fraction=0.3, min_extent=0.4, max_extent=0.8, seed=5))
    # 400 draws of 0.3: a deviation of 0.023.
    assert np.mean(part < 1) == pytest.approx(0.3, abs=0.08)


def test_extents_of_upright_masks_lie_in_their_range():
    layer = RandomMasks("rectangle", fraction=1.0, min_extent=0.5, max_extent=0.75, seed=1)
    masks = np.asarray(layer.draw(IMAGES))[..., 0]
    widths, heights = masks.any(axis=1).sum(axis=1), masks.any(axis=2).sum(axis=1)
    for extents in (widths, heights):
        assert extents.min() >= 0.5 * 24 - 1
        assert extents.max() <= 0.75 * 24 + 1
        assert extents.std() > 1
    # Width and height are drawn apart from each other.
    assert abs(np.corrcoef(widths, heights)[0, 1]) < 0.2


def test_inverted_masks_show_what_the_others_hide():
    settings = {"fraction": 1.0, "min_extent": 0.3, "max_extent": 0.6, "seed": 9}
    masks = np.asarray(RandomMasks("rotated_ellipse", **settings).draw(IMAGES))
    inverted = np.asarray(RandomMasks("rotated_ellipse", inverted=1.0, **settings).draw(IMAGES))
    np.testing.assert_array_equal(masks + inverted, 1.0)
    some = RandomMasks("rotated_ellipse", inverted=0.25, **settings).draw(IMAGES)
    assert np.mean(np.asarray(some)[:, 0, 0, 0] == 1) == pytest.approx(0.25, abs=0.09)


def test_masks_differ_between_images_and_calls_but_not_between_seeds():
    layer = RandomMasks("rotated_rectangle", 1.0, 0.3, 0.9, seed=3)
    first, second = np.asarray(layer.draw(IMAGES)), np.asarray(layer.draw(IMAGES))
    assert len(np.unique(first.reshape(400, -1), axis=0)) > 390
    assert (first != second).any()
    again = RandomMasks("rotated_rectangle", 1.0, 0.3, 0.9, seed=3)
    np.testing.assert_array_equal(np.asarray(again.draw(IMAGES)), first)


@pytest.mark.parametrize(("fraction", "training"), [(1.0, False), (0.0, True)])
def test_images_are_untouched_outside_training_and_without_masks(fraction, training):
    layer = RandomMasks("rectangle", fraction, 0.3, 0.5)
    images = np.random.default_rng(0).normal(size=(4, 8, 8, 3)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(layer(images, training=training)), images)


def test_devices_that_share_a_batch_draw_different_masks(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    strategy = devices.make_strategy("auto")
    images = IMAGES[:50]
    with strategy.scope():
        layer = RandomMasks("rectangle", 1.0, 0.3, 0.9, seed=3)

    @tf.function
    def draw():
        return strategy.run(layer.draw, args=(images,))

    first, second = (np.asarray(masks) for masks in strategy.experimental_local_results(draw()))
    assert (first != second).any(axis=(1, 2, 3)).mean() > 0.9
    # The first device has what a single one would have.
    alone = RandomMasks("rectangle", 1.0, 0.3, 0.9, seed=3)
    np.testing.assert_array_equal(first, np.asarray(alone.draw(images)))
