"""Close-ups: the arithmetic of regions, one for NumPy and graphs, and reading the originals."""

import os

import cv2
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from gc_net.data import crops, transforms
from gc_net.data.loading import Unreadable
from gc_net.data.pipeline import evaluation_batches
from gc_net.data.splits import ImageError, Split
from gc_net.datasets.image_files import file_split

LOOKS = (0.3, 0.85, 1.0, 1.3, 2.0, 50.0)


def random_boxes(count=300, seed=0):
    """Boxes of all sizes, many of which reach beyond the image or lie on its border."""
    random = np.random.default_rng(seed)
    centers, extents = random.uniform(-0.1, 1.1, (count, 2)), random.uniform(0, 1.4, (count, 2))
    boxes = np.concatenate([centers - extents / 2, centers + extents / 2], axis=1)
    corners = [[0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1], [-0.5, -0.5, 1.5, 1.5], [0, 0.4, 0.1, 0.5]]
    return np.concatenate([corners, boxes]).astype(np.float32)


def step_by_step(box, look):
    """The same as one would say it: a square is moved until it lies in the image."""
    left, top, right, bottom = (float(edge) for edge in box)
    side = min(1.0, look * max(right - left, bottom - top))
    edges = []
    for low, high in ((left, right), (top, bottom)):
        start = (low + high) / 2 - side / 2
        if start < 0:
            start = 0.0
        if start + side > 1:
            start = 1 - side
        edges.append((start, start + side))
    (x1, x2), (y1, y2) = edges
    return [x1, y1, x2, y2]


@pytest.mark.parametrize("look", LOOKS)
def test_a_region_is_a_square_around_the_box_moved_into_the_image(look):
    boxes = random_boxes()
    found = crops.regions(boxes, look)
    np.testing.assert_allclose(found, [step_by_step(box, look) for box in boxes], atol=1e-5)
    assert found.min() >= -1e-6 and found.max() <= 1 + 1e-6
    sides = found[:, 2:] - found[:, :2]
    np.testing.assert_allclose(sides[:, 0], sides[:, 1], atol=1e-6)


@pytest.mark.parametrize("size", [(1, 1), (1, 500), (375, 500), (40, 60), (3000, 4001)])
def test_whole_pixels_are_the_nearest_and_at_least_one(size):
    height, width = size
    regions = crops.regions(random_boxes(), 0.7)
    found = crops.pixels(regions, np.array(size, np.float32)).astype(int)
    for (left, top, right, bottom), region in zip(found.tolist(), regions, strict=True):
        assert 0 <= left < right <= width and 0 <= top < bottom <= height
        for edge, exact in zip(
            (left, top, right, bottom), region * [width, height, width, height], strict=True
        ):
            # A region thinner than a pixel is made one wide.
            thin = 1 if min(right - left, bottom - top) == 1 else 0
            assert abs(edge - exact) <= 0.5 + thin + 1e-3


@pytest.mark.parametrize("look", LOOKS)
def test_the_graph_gives_the_very_pixels_that_numpy_gives(look):
    boxes = random_boxes(3000, seed=1)
    random = np.random.default_rng(2)
    sizes = random.integers(1, 3000, (len(boxes), 2)).astype(np.float32)

    @tf.function
    def in_graph(boxes, sizes):
        regions = crops.regions(boxes, look, namespace=ops)
        return regions, crops.pixels(regions, sizes, namespace=ops)

    regions, pixels = in_graph(boxes, sizes)
    expected = crops.regions(boxes, look)
    assert expected.dtype == np.float32
    np.testing.assert_array_equal(regions, expected)
    np.testing.assert_array_equal(pixels, crops.pixels(expected, sizes))


def test_boxes_of_a_window_are_where_they_were_in_the_image():
    window = transforms.center_window(37, 32)
    box = np.array([[12.0, 8.0, 30.0, 25.0]])
    inside = transforms.boxes_in_window(box, (40, 60), window, 37, 32)
    found = transforms.boxes_out_of_window(inside, window, 37, 32)
    np.testing.assert_allclose(found, box / [60, 40, 60, 40], atol=1e-6)
    # The whole image is its own window, to the last bit: 36 is no power of two.
    boxes = random_boxes()
    mirrored = window._replace(flip=True)
    inside = transforms.boxes_in_window(box, (40, 60), mirrored, 37, 32)
    found = transforms.boxes_out_of_window(inside, mirrored, 37, 32)
    np.testing.assert_allclose(found, box / [60, 40, 60, 40], atol=1e-6)
    same = transforms.boxes_out_of_window(boxes, transforms.center_window(36, 36), 36, 36)
    np.testing.assert_array_equal(same, boxes)


@pytest.mark.parametrize("look", [-0.1, float("nan"), float("inf")])
def test_a_look_that_is_no_multiple_is_refused(look):
    with pytest.raises(ValueError, match="`second_look` must be 0, for no second look"):
        crops.check_second_look(look)


class Drawn:
    """Images of noise whose sizes differ; counts how often each is read."""

    def __init__(self, bad=()):
        self.bad = set(bad)
        self.counts = {}

    def image(self, index):
        height, width = 40 + 7 * index, 90 - 5 * index
        return np.random.default_rng(index).integers(0, 256, (height, width, 3), dtype=np.uint8)

    def __call__(self, index):
        self.counts[index] = self.counts.get(index, 0) + 1
        if index in self.bad:
            raise ImageError("truncated")
        return self.image(index)

    def split(self, count=5):
        files = np.array([f"{index}.png".encode() for index in range(count)])
        return Split("test", ("a",), np.zeros(count, np.int32), files, "", self)


def cut_out(image, box, look, size=16):
    x1, y1, x2, y2 = step_by_step(box, look)
    height, width = image.shape[:2]
    part = image[round(y1 * height) : round(y2 * height), round(x1 * width) : round(x2 * width)]
    return transforms.squash(np.ascontiguousarray(part), size)


BOXES = np.array(
    [[0.21, 0.3, 0.52, 0.58], [0.0, 0.0, 0.33, 0.2], [0.9, 0.81, 1.1, 1.0]], np.float32
)


@pytest.mark.parametrize("before", [True, False])
def test_close_ups_are_cut_out_of_the_originals(before):
    drawn = Drawn()
    close_ups = crops.CloseUps(drawn.split(), 16, multiples=(0.85, 1.3))
    indices = [4, 0, 2]
    if before:
        for _ in evaluation_batches(
            close_ups.split, image_size=16, batch_size=2, indices=indices, frame="full"
        ):
            pass
        assert drawn.counts == {4: 1, 0: 1, 2: 1}
    images, readable = close_ups.load(indices, BOXES)
    assert images.shape == (3, 2, 16, 16, 3) and readable.all()
    for row, index in enumerate(indices):
        for number, look in enumerate((0.85, 1.3)):
            expected = cut_out(drawn.image(index), BOXES[row], look)
            np.testing.assert_array_equal(images[row, number], expected)
    if before:
        # What was decoded for the first look is used again, and let go of afterwards.
        assert drawn.counts == {4: 1, 0: 1, 2: 1}
        close_ups.load([4], BOXES[:1])
        assert drawn.counts[4] > 1


def test_originals_beyond_what_may_be_kept_are_decoded_again(monkeypatch):
    drawn = Drawn()
    monkeypatch.setattr(crops, "KEPT_BYTES", drawn.image(0).nbytes)
    close_ups = crops.CloseUps(drawn.split(), 16, multiples=(1.0,))
    for index in (0, 1):
        close_ups.split.read.reduced(index, 16)
    images, _ = close_ups.load([0, 1], BOXES[:2])
    assert drawn.counts == {0: 1, 1: 2}
    np.testing.assert_array_equal(images[1, 0], cut_out(drawn.image(1), BOXES[1], 1.0))


def test_an_original_that_cannot_be_read_again_is_left_out_and_named():
    drawn = Drawn(bad=(0,))
    unreadable = Unreadable()
    close_ups = crops.CloseUps(drawn.split(), 16, multiples=(0.85, 1.3), unreadable=unreadable)
    images, readable = close_ups.load([4, 0, 2], BOXES)
    assert readable.tolist() == [True, False, True]
    for row, (index, box) in enumerate(((4, BOXES[0]), (2, BOXES[2]))):
        np.testing.assert_array_equal(images[row, 1], cut_out(drawn.image(index), box, 1.3))
    assert list(unreadable) == [("0.png", "truncated")]
    images, readable = close_ups.load([0], BOXES[:1])
    assert images.shape == (0, 2, 16, 16, 3) and not readable.any()


def test_a_large_photo_is_decoded_as_large_as_its_region_needs(tmp_path, monkeypatch):
    from gc_net.data import decode

    smooth = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    photo = cv2.resize(smooth, (1200, 900), interpolation=cv2.INTER_CUBIC)
    cv2.imwrite(os.path.join(tmp_path, "a.jpg"), photo)
    split = file_split("test", ("a",), [0], ["a.jpg"], str(tmp_path))
    targets = []
    whole = decode.decode_with_size
    monkeypatch.setattr(
        decode,
        "decode_with_size",
        lambda data, target: targets.append(target) or whole(data, target),
    )
    close_ups = crops.CloseUps(split, 16, multiples=(1.0,))
    reduced, size = close_ups.split.read.reduced(0, 16)
    assert reduced.shape[0] < size[0] == 900  # too little for a close-up, so it is not kept
    box = np.array([[0.4, 0.4, 0.5, 0.5]], np.float32)
    found, _ = close_ups.load([0], box)
    assert targets == [16, 160]
    difference = found[0, 0] - cut_out(photo[..., ::-1], box[0], 1.0).astype(float)
    assert np.abs(difference).mean() < 3
