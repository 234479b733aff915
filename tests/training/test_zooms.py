"""Random close-ups: how many, where, and what they show."""

import numpy as np
import pytest

from gc_net.training.zooms import RandomZooms


def test_the_given_part_of_the_images_is_zoomed_into_squares_inside_the_image():
    squares = np.asarray(RandomZooms(fraction=0.4, min_side=0.5, seed=2).draw(1000))
    width, height = (squares[:, 2:] - squares[:, :2]).T
    np.testing.assert_allclose(width, height, atol=1e-6)
    zoomed = width < 1
    # 1,000 draws of 0.4: a deviation of 0.015.
    assert zoomed.mean() == pytest.approx(0.4, abs=0.06)
    assert width.min() >= 0.5 and np.ptp(width[zoomed]) > 0.45
    assert squares.min() >= 0 and squares.max() <= 1 + 1e-6
    # As far to the left and top as to the right and bottom.
    np.testing.assert_allclose((squares[:, :2] + squares[:, 2:]).mean(axis=0) / 2, 0.5, atol=0.03)
    np.testing.assert_array_equal(squares[~zoomed], np.tile([0, 0, 1, 1], (sum(~zoomed), 1)))


def test_a_close_up_shows_the_square_that_was_drawn():
    # Two channels tell where a pixel came from.
    size = 33
    x, y = np.meshgrid(np.linspace(0, 1, size), np.linspace(0, 1, size))
    images = np.broadcast_to(np.stack([x, y, 0 * x], axis=-1), (50, size, size, 3))
    images = images.astype(np.float32)
    shown = np.asarray(RandomZooms(fraction=1.0, min_side=0.3, seed=7)(images, training=True))
    squares = np.asarray(RandomZooms(fraction=1.0, min_side=0.3, seed=7).draw(50))
    np.testing.assert_allclose(shown[:, 0, 0, :2], squares[:, :2], atol=1e-5)
    np.testing.assert_allclose(shown[:, -1, -1, :2], squares[:, 2:], atol=1e-5)


@pytest.mark.parametrize(("fraction", "training"), [(1.0, False), (0.0, True)])
def test_images_are_untouched_outside_training_and_without_zooms(fraction, training):
    images = np.random.default_rng(0).normal(size=(4, 8, 8, 3)).astype(np.float32)
    layer = RandomZooms(fraction, min_side=0.5)
    np.testing.assert_array_equal(np.asarray(layer(images, training=training)), images)


def test_an_image_that_is_not_chosen_stays_as_it_is():
    images = np.random.default_rng(0).normal(size=(200, 9, 9, 3)).astype(np.float32)
    shown = np.asarray(RandomZooms(fraction=0.5, min_side=0.5, seed=1)(images, training=True))
    same = np.isclose(shown, images, atol=1e-5).all(axis=(1, 2, 3))
    assert same.mean() == pytest.approx(0.5, abs=0.12)
