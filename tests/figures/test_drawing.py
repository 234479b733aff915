"""Predictions on images, overlays and grids, compared with what geometry says of each pixel."""

import subprocess
import sys

import numpy as np
import pytest

from gc_net.figures import drawing
from gc_net.figures.drawing import BLACK, BLUE, GAP, RED, TEXT_HEIGHT


def grey(height=100, width=100, value=128):
    return np.full((height, width, 3), value, np.uint8)


def is_color(image, color):
    return np.all(image == np.array(color), axis=-1)


def extent(marked):
    """Return the first and one past the last marked column and row: x0, y0, x1, y1."""
    rows, columns = np.nonzero(marked)
    return columns.min(), rows.min(), columns.max() + 1, rows.max() + 1


@pytest.mark.parametrize("argument, color", [("box_rel_xyxy", BLUE), ("truth", RED)])
@pytest.mark.parametrize("size", [(100, 100), (60, 240), (500, 300)])
def test_a_box_has_its_color_and_lies_within_its_edges(argument, color, size):
    height, width = size
    box = (0.2, 0.3, 0.7, 0.9)
    options = {"truth_boxes_rel_xyxy": [box]} if argument == "truth" else {argument: box}
    drawn = drawing.draw_prediction(grey(*size), **options)
    found = extent(is_color(drawn, color))
    np.testing.assert_allclose(found, np.multiply(box, (width, height) * 2), atol=1)
    changed = np.any(drawn != 128, axis=-1)
    inner = np.s_[int(0.45 * height) : int(0.75 * height), int(0.35 * width) : int(0.6 * width)]
    assert not changed[inner].any(), "the inside is left as it is"


@pytest.mark.parametrize("box", [(0, 0, 1, 1), (-0.5, -3, 1.2, 1.0)])
def test_a_box_beyond_the_image_is_seen_at_its_border(box):
    drawn = is_color(drawing.draw_prediction(grey(300, 200), box_rel_xyxy=box), BLUE)
    assert extent(drawn) == (0, 0, 200, 300)
    assert drawn[1, 5:-5].all() and drawn[-2, 5:-5].all() and drawn[5:-5, 1].all()


@pytest.mark.parametrize("box", [(1.1, 0, 1.3, 1), (0.5, 0.5, 0.5, 0.5), (np.nan, 0, 1, 1)])
def test_a_box_that_is_nowhere_leaves_the_image_as_it_is(box):
    image = grey()
    np.testing.assert_array_equal(drawing.draw_prediction(image, box_rel_xyxy=box), image)
    assert (drawing.draw_prediction(image, outline_rel=[(0, np.nan), (1, 1)]) == image).all()


@pytest.mark.parametrize("value", [0, 128, 255])
def test_an_outline_follows_the_curve_and_shows_on_any_ground(value):
    turns = np.linspace(0, 2 * np.pi, 128, endpoint=False)
    outline = 0.5 + np.stack([0.3 * np.cos(turns), 0.2 * np.sin(turns)], axis=-1)
    drawn = drawing.draw_prediction(grey(200, 200, value), outline_rel=outline)
    changed = np.any(drawn != value, axis=-1)
    y, x = (np.mgrid[:200, :200] + 0.5) / 200 - 0.5
    # Distance to the ellipse in pixels, to first order.
    level = np.hypot(x / 0.3, y / 0.2) - 1
    slope = np.hypot(x / 0.3**2, y / 0.2**2) / np.hypot(x / 0.3, y / 0.2)
    distance = 200 * np.abs(level) / slope
    assert distance[changed].max() < 5
    assert is_color(drawn, BLACK)[distance < 0.4].mean() > 0.9
    assert changed[(distance > 1.2) & (distance < 2)].mean() > 0.9 or value == 255


def test_lines_scale_with_the_image():
    shares = [
        np.any(drawing.draw_prediction(grey(side, side), box_rel_xyxy=(0, 0, 1, 1)) != 128, -1)
        for side in (112, 448, 1120)
    ]
    shares = [marked.mean() for marked in shares]
    np.testing.assert_allclose(shares, shares[0], rtol=0.5)


def test_a_small_image_is_enlarged_first_and_never_written_to():
    image = grey(30, 60)
    drawn = drawing.draw_prediction(image, box_rel_xyxy=(0.25, 0, 0.75, 1), longer_side=240)
    assert drawn.shape == (120, 240, 3)
    np.testing.assert_allclose(extent(is_color(drawn, BLUE)), (60, 0, 180, 120), atol=1)
    drawing.draw_prediction(image, box_rel_xyxy=(0, 0, 1, 1), outline_rel=[(0, 0), (1, 1), (0, 1)])
    assert (image == 128).all()


def test_a_mask_is_shown_in_grey():
    mask = np.random.default_rng(0).uniform(size=(7, 9, 1))
    np.testing.assert_array_equal(
        drawing.mask_image(mask)[..., 1], np.rint(255 * mask[..., 0]).astype(np.uint8)
    )


NORMALIZERS = {
    "one scale": lambda x: (x - 127.0) / 128.0,
    "per channel": lambda x: (x - [123.675, 116.28, 103.53]) / [58.395, 57.12, 57.375],
    "swapped": lambda x: x[..., ::-1] - [103.939, 116.779, 123.68],
    "none": lambda x: x,
}


@pytest.mark.parametrize("name", NORMALIZERS)
def test_colors_are_recovered_from_normalized_images(name):
    images = np.random.default_rng(1).integers(0, 256, (2, 5, 4, 3), np.uint8)
    normalize = NORMALIZERS[name]
    display = drawing.denormalizer(normalize)
    np.testing.assert_array_equal(display(normalize(images.astype(np.float32))), images)


def test_masked_pixels_are_shown_in_the_mean_color():
    display = drawing.denormalizer(NORMALIZERS["per channel"])
    np.testing.assert_array_equal(display(np.zeros((1, 1, 3)))[0, 0], (124, 116, 104))


@pytest.mark.parametrize("count, columns, rows_and_columns", [(7, 3, (3, 3)), (2, 5, (1, 2))])
@pytest.mark.parametrize("captioned", [False, True])
def test_a_grid_is_exact(count, columns, rows_and_columns, captioned):
    images = [grey(20, 30, value) for value in range(count)]
    captions = [f"image {value}" for value in range(count)] if captioned else None
    sheet = drawing.grid(images, columns, captions)
    rows, cells = rows_and_columns
    step = 20 + GAP + TEXT_HEIGHT * captioned
    assert sheet.shape == (rows * step + GAP, cells * (30 + GAP) + GAP, 3)
    for value in range(count):
        row, column = divmod(value, cells)
        top, left = GAP + row * step, GAP + column * (30 + GAP)
        assert (sheet[top : top + 20, left : left + 30] == value).all()


def test_a_cell_can_be_left_empty():
    sheet = drawing.grid([None, grey(20, 30), None], 2, ["", "a", "b"])
    assert (sheet[GAP : GAP + 20, GAP : GAP + 30] == 255).all()
    assert (sheet[GAP : GAP + 20, 30 + 2 * GAP :][:, :30] == 128).all()
    with pytest.raises(ValueError, match="0 images"):
        drawing.grid([None], 1)


def test_images_of_other_sizes_stand_centred_at_the_bottom_of_their_cell():
    sheet = drawing.grid([grey(20, 10), grey(8, 30)], 2, cell=(24, 32))
    first, second = (
        is_color(sheet[GAP : GAP + 24, left : left + 32], (128,) * 3) for left in (10, 52)
    )
    assert extent(first) == (11, 4, 21, 24) and extent(second) == (1, 16, 31, 24)


@pytest.mark.parametrize("text", ["a caption much too long for its cell", "Käfer", "甲虫", ""])
def test_a_caption_stays_within_its_cell(text):
    sheet = drawing.grid([grey(20, 80)] * 2, 2, [text, text])
    inked = np.any(sheet[GAP + 20 :] < 200, axis=(0, 2))
    assert not inked[: GAP - 1].any() and not inked[GAP + 81 : 2 * GAP + 79].any()
    assert inked.any() == bool(text)


def test_bad_requests_are_explained():
    with pytest.raises(ValueError, match="0 images, columns=3"):
        drawing.grid([], 3)
    with pytest.raises(ValueError, match="2 images need as many captions"):
        drawing.grid([grey()] * 2, 2, ["one"])
    with pytest.raises(ValueError, match=r"up to \(100, 100\) do not fit cells of \(50, 200\)"):
        drawing.grid([grey()], 1, cell=(50, 200))
    with pytest.raises(ValueError, match=r"uint8 \[H, W, 3\]. Received: float32 \[4, 4, 1\]"):
        drawing.draw_prediction(np.zeros((4, 4, 1), np.float32))


def test_drawing_does_not_import_tensorflow():
    code = "import sys, gc_net.figures.drawing; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
