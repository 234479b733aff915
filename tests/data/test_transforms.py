"""Squashing, windows and boxes; eagerly, and from inside a tf.data graph."""

import cv2
import numpy as np
import pytest
import tensorflow as tf

from gc_net.data import transforms
from gc_net.data.transforms import Window
from tests.data import encoded


def filter_matrix(source, target):
    """The triangle filter that Pillow's bilinear resize applies along one axis."""
    scale = source / target
    support = max(scale, 1)
    centers = (np.arange(target) + 0.5) * scale
    offsets = (np.arange(source)[None] + 0.5 - centers[:, None]) / support
    weights = np.maximum(0, 1 - np.abs(offsets))
    return weights / weights.sum(1, keepdims=True)


def antialiased(image, size):
    rows, columns = filter_matrix(image.shape[0], size), filter_matrix(image.shape[1], size)
    return np.einsum("ij,jkc,lk->ilc", rows, image.astype(float), columns, optimize=True)


def in_graph(function, *arrays):
    """Run a NumPy transform as the pipeline does: inside the graph of a dataset's `map`."""

    def step(_):
        return tf.numpy_function(function, arrays, tf.uint8)

    return next(iter(tf.data.Dataset.range(1).map(step))).numpy()


@pytest.mark.parametrize(("image_size", "expected"), [(224, 256), (128, 146), (112, 128), (64, 73)])
def test_the_default_resize_size_keeps_the_papers_proportion(image_size, expected):
    assert transforms.default_resize_size(image_size) == expected


@pytest.mark.parametrize("size", [24, 64, 146])
@pytest.mark.parametrize(
    "shape", [(90, 120), (120, 90), (64, 64), (300, 400), (700, 90), (60, 500), (20, 30), (1, 1)]
)
def test_squashing_antialiases_as_pillow_does(shape, size):
    image = encoded.photo(*shape)
    squashed = transforms.squash(image, size)
    assert squashed.dtype == np.uint8
    assert squashed.shape == (size, size, 3)
    assert np.abs(squashed - antialiased(image, size)).mean() < 1.2
    np.testing.assert_array_equal(squashed, transforms.squash(image, size))


def test_stripes_finer_than_the_result_turn_grey_instead_of_aliasing():
    stripes = np.zeros((64, 500, 3), np.uint8)
    stripes[:, ::2] = 255
    squashed = transforms.squash(stripes, 100)[:, 1:-1].astype(int)
    assert np.abs(squashed - 127.5).max() <= 4


def test_squashing_keeps_a_constant_and_leaves_its_input_alone():
    image = np.full((311, 207, 3), (3, 130, 250), np.uint8)
    assert (transforms.squash(image, 96) == (3, 130, 250)).all()
    image = encoded.photo(120, 160)
    before = image.copy()
    results = [transforms.squash(image, 64), transforms.squash(image[::-1].copy(), 64)]
    np.testing.assert_array_equal(image, before)
    # The memory worked in is shared between calls, results are not.
    np.testing.assert_array_equal(results[0], transforms.squash(image, 64))


def test_squashing_is_the_same_in_a_graph():
    image = encoded.photo(120, 160)
    squashed = in_graph(lambda image: transforms.squash(image, 64), image)
    np.testing.assert_array_equal(squashed, transforms.squash(image, 64))


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(("top", "left"), [(0, 0), (3, 7), (10, 10)])
def test_a_window_is_cut_and_mirrored(top, left, flip):
    image = encoded.photo(50, 50)
    expected = image[top : top + 40, left : left + 40][:, :: -1 if flip else 1]
    window = Window(top, left, flip)
    np.testing.assert_array_equal(transforms.take(image, window, 40), expected)
    np.testing.assert_array_equal(
        in_graph(lambda image: transforms.take(image, window, 40), image), expected
    )
    image.setflags(write=False)  # as a memory-mapped cache is
    out = np.zeros((40, 40, 3), np.uint8)
    assert transforms.take(image, window, 40, out) is out
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("window", [Window(11, 0), Window(0, 11), Window(-1, 0), Window(0, -1)])
def test_a_window_outside_the_image_is_an_error(window):
    with pytest.raises(ValueError, match=r"does not fit into an image of 50 × 50"):
        transforms.take(np.zeros((50, 50, 3), np.uint8), window, 40)


def test_an_image_size_beyond_the_resize_size_is_an_error():
    with pytest.raises(ValueError, match=r"image_size=300, resize_size=256"):
        transforms.center_window(256, 300)


def alone(index, resize_size, image_size, seed, epoch):
    """The window of one image, without those before it: three draws of the stream each."""
    generator = np.random.Generator(np.random.PCG64([seed, epoch, 1]).advance(3 * index))
    top, left, flip = generator.random(3)
    places = resize_size - image_size + 1
    place = int(top * places), int(left * places)
    return transforms.Window(*place, flip >= 0.5, image_size, image_size)


def test_a_random_window_depends_on_seed_epoch_and_index_alone():
    windows = transforms.random_windows(500, 256, 224, seed=3, epoch=5)
    for index in (0, 1, 77, 499):
        assert transforms.window_of(windows[index]) == alone(index, 256, 224, seed=3, epoch=5)
    np.testing.assert_array_equal(
        transforms.random_windows(9, 256, 224, seed=3, epoch=5), windows[:9]
    )
    for other in ({"seed": 4, "epoch": 5}, {"seed": 3, "epoch": 6}, {"seed": -3, "epoch": 5}):
        assert (transforms.random_windows(500, 256, 224, **other) != windows).any(1).mean() > 0.9


def test_random_windows_are_uniform_over_places_and_flips():
    windows = transforms.random_windows(33_000, 256, 224, seed=0, epoch=0)
    for column, choices in ((0, 33), (1, 33), (2, 2)):
        counts = np.bincount(windows[:, column], minlength=choices)
        assert len(counts) == choices
        expected = len(windows) / choices
        # χ² of a fair draw lies below this in all but one of about 10,000 cases.
        assert ((counts - expected) ** 2 / expected).sum() < choices + 4 * np.sqrt(2 * choices) + 8
    assert np.abs(np.corrcoef(windows[:, :3].T) - np.eye(3)).max() < 0.03
    assert (windows[:, 3:] == 224).all()


def test_without_a_margin_windows_are_flipped_only():
    windows = transforms.random_windows(100, 299, 299, seed=0, epoch=0)
    assert (windows[:, :2] == 0).all()
    assert 20 < windows[:, 2].sum() < 80


def test_windows_differ_in_size_and_proportions_as_far_as_is_asked_for():
    options = {"seed": 1, "epoch": 2, "crop_scale": 0.5, "crop_aspect": 2.0}
    windows = transforms.random_windows(5000, 256, 224, **options)
    top, left, _, height, width = windows.astype(int).T
    assert (top >= 0).all() and (left >= 0).all()
    assert (top + height).max() <= 256 and (left + width).max() <= 256
    sides, ratios = np.sqrt(height * width) / 256, width / height
    assert 0.49 < sides.min() < 0.52 and 0.9 < sides.max() <= 1
    assert 0.49 < ratios.min() < 0.52 and 1.9 < ratios.max() < 2.05
    np.testing.assert_array_equal(transforms.random_windows(9, 256, 224, **options), windows[:9])
    square = transforms.random_windows(99, 256, 224, seed=1, epoch=2, crop_scale=0.5)
    np.testing.assert_array_equal(square[:, 3], square[:, 4])
    stretched = transforms.random_windows(99, 256, 224, seed=1, epoch=2, crop_aspect=1.5)
    assert np.abs(np.sqrt(stretched[:, 3] * stretched[:, 4].astype(int)) - 224).max() < 8


def test_a_window_of_another_size_is_resized_to_what_the_network_sees():
    image = np.random.default_rng(0).integers(0, 256, (60, 60, 3), np.uint8)
    window = Window(5, 10, True, height=20, width=40)
    expected = cv2.resize(image[5:25, 10:50], (32, 32))[:, ::-1]
    np.testing.assert_array_equal(transforms.take(image, window, 32), expected)


def test_ten_windows_are_corners_and_centre_twice():
    windows = transforms.ten_windows(256, 224)
    places = [(0, 0), (0, 32), (32, 0), (32, 32), (16, 16)]
    assert windows[:5] == [Window(top, left, False) for top, left in places]
    assert windows[5:] == [Window(top, left, True) for top, left in places]


def test_the_center_window_has_equal_margins():
    assert transforms.center_window(256, 224) == Window(16, 16)
    assert transforms.center_window(224, 224) == Window(0, 0)


@pytest.mark.parametrize("window", transforms.ten_windows(64, 48))
def test_boxes_follow_the_pixels_through_resize_crop_and_flip(window):
    """A white rectangle is drawn, transformed as an image, and its box found again."""
    image = np.zeros((320, 640, 3), np.uint8)
    box_xyxy = np.array([200, 100, 400, 240])
    image[100:240, 200:400] = 255
    seen = transforms.take(transforms.squash(image, 64), window, 48)[..., 0] > 127
    columns, rows = np.flatnonzero(seen.any(0)), np.flatnonzero(seen.any(1))
    found = np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]) / 48
    mapped = transforms.boxes_in_window(box_xyxy, (320, 640), window, 64, 48)
    assert mapped.dtype == np.float32
    np.testing.assert_allclose(mapped, found, atol=0.51 / 48)


def test_boxes_are_exact_and_not_clipped():
    boxes_xyxy = np.array([[[0, 0, 500, 375], [100, 75, 200, 150]], [[10, 20, 30, 40], [0] * 4]])
    sizes = np.array([[375, 500], [100, 200]])
    mapped = transforms.boxes_in_window(boxes_xyxy, sizes[:, None], Window(16, 16), 256, 224)
    # Relative to the whole image, as fractions of it.
    whole = np.array([[[0, 0, 1, 1], [0.2, 0.2, 0.4, 0.4]], [[0.05, 0.2, 0.15, 0.4], [0] * 4]])
    expected = 0.5 + (whole - 0.5) * 256 / 224
    np.testing.assert_allclose(mapped, expected, rtol=1e-6)


def test_a_flip_mirrors_boxes_and_keeps_their_order():
    box = transforms.boxes_in_window([[10, 20, 30, 60]], (100, 100), Window(0, 0, True), 50, 50)
    np.testing.assert_allclose(box, [[0.7, 0.2, 0.9, 0.6]], rtol=1e-6)
