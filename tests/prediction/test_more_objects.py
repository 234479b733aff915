"""Several objects: what was found is hidden, and the rest is looked at again."""

import functools
import types

import cv2
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from gc_net.detector import Detector
from gc_net.localizer import Localizer
from gc_net.prediction import more_objects
from gc_net.shapes.base import Shape
from tests.prediction.models import CLASS_NAMES, IMAGE_SIZE, tiny_model

SIZE = 96


class FindsRed:
    """Places a box around the largest red block, or around all where nothing is red."""

    image_size = IMAGE_SIZE
    normalizer = keras.layers.Identity()  # not that of the classifier, so no layer is shared
    place, of_both, decode = Detector.place, Detector.of_both, Detector.decode
    windows, looks_twice = Detector.windows, Detector.looks_twice
    # Its outputs are coefficients already.
    parametrization = types.SimpleNamespace(
        decode=lambda raw, shape: raw,
        mirrored=Shape.mirrored,
        mean=lambda one, other: (one + other) / 2,
        has_deviations=False,
    )

    def __init__(self, shape):
        self.shape = shape

    def normalize(self, images):
        return images

    def chosen(self, blocks, sizes):
        return blocks == 1 + int(np.argmax(sizes))

    def from_normalized(self, images):
        def find(images):
            found = []
            for image in images:
                red = (image[..., 0] > 180) & (image[..., 1] < 60)
                count, blocks = cv2.connectedComponents(red.astype(np.uint8))
                sizes = [(blocks == number).sum() for number in range(1, count)]
                block = self.chosen(blocks, sizes) if sizes else np.ones_like(red)
                found.append(self.shape.fit(block))
            return np.array(found, np.float32)

        outputs = tf.numpy_function(find, [images], tf.float32)
        outputs.set_shape([None, 4])
        return outputs


class FindsAllRed(FindsRed):
    """Places one box around all red blocks that are large beside the largest."""

    def chosen(self, blocks, sizes):
        large = 1 + np.flatnonzero(sizes > 0.4 * np.max(sizes))
        return np.isin(blocks, large)


class SeesRed:
    """Takes an image for class 0 if enough of it is red; where not, it can hardly decide."""

    num_classes, image_size = 3, IMAGE_SIZE
    normalizer = keras.layers.Rescaling(0.01, offset=-1.27)

    def normalize(self, images):
        return (ops.cast(images, "float32") - 127.0) / 100.0

    def from_normalized(self, normalized):
        red = ops.cast((normalized[..., 0] > 0.5) & (normalized[..., 1] < -0.6), "float32")
        share = ops.maximum(ops.mean(red, axis=(1, 2)) - 0.01, 0.0)
        return ops.stack([1000 * share, 0 * share + 0.3, 0 * share + 0.2], axis=-1)


@functools.cache
def localizer(finds=FindsRed, **options):
    model = tiny_model("rectangle")
    return Localizer(finds(model.shape), model.generator, SeesRed(), CLASS_NAMES, **options)


def scene(*blocks):
    image = np.full((SIZE, SIZE, 3), (20, 140, 40), np.uint8)
    for left, top, side in blocks:
        image[top : top + side, left : left + side] = (250, 0, 0)
    return image


def test_each_object_is_found_the_largest_first_and_the_search_ends_by_itself():
    blocks = [(6, 6, 36), (54, 48, 30), (12, 60, 24)]
    images = [scene(*blocks), scene(blocks[1]), scene()]
    three, one, none = localizer().predict(images, max_objects=5, evidence=True)
    found = [np.round(each.box_xyxy) for each in three.objects]
    for box, (left, top, side) in zip(found, blocks, strict=True):
        np.testing.assert_allclose(box, (left, top, left + side, top + side), atol=4)
    assert len(one.objects) == 1 and len(none.objects) == 1
    (two,) = localizer().predict(images[:1], max_objects=2)
    assert len(two.objects) == 2
    assert three.no_object is False and one.no_object is False


def test_the_first_object_is_that_of_a_single_look():
    image = scene((6, 6, 36), (54, 48, 30))
    (several,) = localizer().predict(image, max_objects=3)
    (single,) = localizer().predict(image)
    assert several.objects[0].box_xyxy == single.box_xyxy
    assert several.confidence == single.confidence
    assert single.others == () and single.no_object is None


def test_an_image_without_an_object_is_told_by_its_evidence():
    images = [scene(), scene((30, 30, 36))]
    nothing, something = localizer().predict(images, evidence=True)
    assert nothing.no_object is True
    assert something.no_object is False


def boxes_of(*blocks):
    return [(left, top, left + side, top + side) for left, top, side in blocks]


@pytest.mark.parametrize("resize_size", [None, IMAGE_SIZE + 6])
@pytest.mark.parametrize(
    "blocks",
    [
        [(12, 42, 30), (54, 42, 27)],  # side by side
        [(30, 14, 28), (36, 56, 22)],  # one above the other
        [(14, 14, 28), (56, 18, 24), (20, 56, 22)],  # a part is around two again
    ],
)
def test_a_shape_around_several_objects_is_split(blocks, resize_size):
    finder = localizer(FindsAllRed, resize_size=resize_size)
    (group,), (several,) = (finder.predict(scene(*blocks), max_objects=most) for most in (1, 5))
    around = np.array(boxes_of(*blocks))
    around = [*around[:, :2].min(axis=0), *around[:, 2:].max(axis=0)]
    np.testing.assert_allclose(group.box_xyxy, around, atol=4)
    found = sorted(each.box_xyxy for each in several.objects)
    np.testing.assert_allclose(found, sorted(boxes_of(*blocks)), atol=5)
    areas = [np.prod(np.subtract(each.box_xyxy[2:], each.box_xyxy[:2])) for each in several.objects]
    assert len(blocks) > 2 or areas == sorted(areas, reverse=True)
    (two,) = finder.predict(scene(*blocks), max_objects=2)
    assert len(two.objects) == 2


def test_a_single_object_is_not_split_and_a_confidence_need_not_be_asked_for():
    finder = localizer(FindsAllRed)
    for block in ((14, 40, 30), (5, 5, 86), (60, 10, 20)):
        (only,) = finder.predict(scene(block), max_objects=5, confidence=False)
        assert len(only.objects) == 1 and only.confidence is None
        np.testing.assert_allclose(only.box_xyxy, *boxes_of(block), atol=4)
    (two,) = finder.predict(scene((12, 42, 30), (54, 42, 27)), max_objects=5, confidence=False)
    assert len(two.objects) == 2 and two.confidence is None


def test_parts_overlap_and_together_show_the_box_with_a_margin():
    box = np.array([[0.2, 0.4, 0.6, 0.6]])
    left, right, top, bottom = more_objects.parts(box, 1.0)[0]
    np.testing.assert_allclose(left, [0.176, 0.388, 0.46, 0.612])
    np.testing.assert_allclose(right, [0.34, 0.388, 0.624, 0.612])
    np.testing.assert_allclose(top, [0.176, 0.388, 0.624, 0.53])
    np.testing.assert_allclose(bottom, [0.176, 0.47, 0.624, 0.612])
    wider = more_objects.parts(box, 8 / 7)[0, 0]  # whose central 7/8 is the same
    np.testing.assert_allclose(wider[:2] + (wider[2:] - wider[:2]) / 16, left[:2])
    np.testing.assert_allclose(wider[2:] - (wider[2:] - wider[:2]) / 16, left[2:])


@pytest.mark.parametrize("window", [(0.25, 0.125, 0.75, 0.875), (-0.25, 0.5, 0.5, 1.25)])
def test_a_cut_shows_its_window_and_shapes_in_it_are_put_back(window):
    window = np.array(window)
    y, x = np.mgrid[:64, :64] + 0.5
    image = np.stack([3 * x, 3 * y, 0 * x], axis=-1).astype(np.uint8)
    shown = more_objects.cut(image, window)
    for row, column in ((20, 44), (40, 30)):
        place = window[:2] + (np.array([column, row]) + 0.5) / 64 * (window[2:] - window[:2])
        expected = 3 * 64 * np.clip(place, 0, 1)
        np.testing.assert_allclose(shown[row, column, :2], expected, atol=4)
    put_back = more_objects.whole_image(Shape, np.float32([[0.5, 0.25, 0.5, 0.5]]), window[None])[0]
    extent = window[2:] - window[:2]
    np.testing.assert_allclose(put_back[:2], window[:2] + [0.5, 0.25] * extent, rtol=1e-5)
    np.testing.assert_allclose(put_back[2:], 0.5 * extent, rtol=1e-5)
