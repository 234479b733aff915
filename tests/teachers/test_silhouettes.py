"""Silhouettes: colours tell where the object of a coarse map ends."""

import cv2
import numpy as np
import pytest

from gc_net.teachers.silhouettes import SIZE, silhouettes


def picture(center=(60, 70), axes=(34, 20), angle=30, size=SIZE, noise=12):
    """Return a speckled ellipse on a speckled ground, its mask, and a round 7 × 7 map of it."""
    rng = np.random.default_rng(0)
    mask = np.zeros((size, size), np.uint8)
    cv2.ellipse(mask, center, axes, angle, 0, 360, 1, -1)
    image = np.where(mask[..., None], [170, 60, 50], [70, 120, 60]) + rng.normal(
        0, noise, (size, size, 3)
    )
    rows, columns = np.mgrid[:7, :7]
    x, y = (columns + 0.5) / 7 * size, (rows + 0.5) / 7 * size
    values = 1 - np.hypot(x - center[0], y - center[1]) / (1.2 * axes[0])
    return np.clip(image, 0, 255).astype(np.uint8), mask > 0, values.astype(np.float32)


def iou(a, b):
    return (a & b).sum() / (a | b).sum()


def test_a_round_patch_becomes_the_object_that_lies_in_it():
    image, mask, values = picture()
    patch = cv2.resize(values, (SIZE, SIZE), interpolation=cv2.INTER_LINEAR) > 0
    found = silhouettes(image[None], values[None])[0]
    assert iou(patch, mask) < 0.5
    assert iou(found, mask) > 0.95


@pytest.mark.parametrize("size", [64, 224])
def test_images_of_any_size_are_cut(size):
    image, mask, values = picture()
    scaled = cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA)
    found = silhouettes(scaled[None], values[None])
    assert found.shape == (1, SIZE, SIZE) and found.dtype == bool
    assert iou(found[0], mask) > 0.9


def test_an_object_may_reach_a_little_beyond_its_patch():
    image, mask, values = picture(center=(64, 64), axes=(38, 22), angle=0)
    smaller = values - values[3, 5] - 0.05  # a patch that ends short of both tips
    patch = cv2.resize(smaller, (SIZE, SIZE), interpolation=cv2.INTER_LINEAR) > 0
    assert (mask & ~patch).any()
    found = silhouettes(image[None], smaller[None])[0]
    assert (found & mask & ~patch).any()


def test_only_the_part_that_hangs_together_is_kept():
    image, mask, values = picture()
    image[32:38, 77:83] = [170, 60, 50]  # a speck of the object's colour
    found = silhouettes(image[None], values[None])[0]
    assert not found[32:38, 77:83].any() and iou(found, mask) > 0.9


def test_without_anything_above_zero_there_is_no_silhouette():
    image, _, values = picture()
    assert not silhouettes(image[None], values[None] - 10).any()


def test_what_is_strongest_is_kept_whatever_its_colour():
    image, mask, values = picture()
    cv2.circle(image, (60, 70), 6, [70, 120, 60], -1)  # a spot like the ground in the very middle
    found = silhouettes(image[None], values[None])[0]
    assert found[64:77, 54:67].all() and iou(found, mask) > 0.9
    plain = silhouettes(np.full((1, 128, 128, 3), 90, np.uint8), values[None])[0]
    assert plain[70, 60] and not plain[[0, -1]].any()


def test_a_map_of_one_value_is_taken_as_it_is():
    image = picture()[0]
    assert silhouettes(image[None], np.ones((1, 7, 7), np.float32)).all()


def test_a_silhouette_does_not_depend_on_what_is_cut_beside_it(monkeypatch):
    # Pure noise, so that the random clusters which the mixtures start from make a difference.
    images = np.random.default_rng(0).integers(0, 256, (8, 128, 128, 3)).astype(np.uint8)
    maps = np.stack([picture(center=(50 + 4 * n, 60))[2] for n in range(8)])
    together = silhouettes(images, maps)
    for number in range(8):
        alone = silhouettes(images[number : number + 1], maps[number : number + 1])[0]
        np.testing.assert_array_equal(together[number], alone)
    seeded = cv2.setRNGSeed
    monkeypatch.setattr(cv2, "setRNGSeed", lambda seed: seeded(seed + 7))
    assert (silhouettes(images, maps) != together).any()  # or the above would show nothing


def test_no_images_give_no_silhouettes():
    none = silhouettes(np.zeros((0, 64, 64, 3), np.uint8), np.zeros((0, 7, 7)))
    assert none.shape == (0, SIZE, SIZE)
