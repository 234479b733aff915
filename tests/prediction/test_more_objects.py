"""Several objects: what was found is hidden, and the rest is looked at again."""

import functools
import types

import cv2
import numpy as np
import tensorflow as tf
from keras import ops

from gc_net.detector import Detector
from gc_net.localizer import Localizer
from gc_net.shapes.base import Shape
from tests.prediction.models import CLASS_NAMES, IMAGE_SIZE, tiny_model

SIZE = 96


class FindsRed:
    """Places a box around the largest red block, or around all where nothing is red."""

    image_size = IMAGE_SIZE
    place, of_both, decode = Detector.place, Detector.of_both, Detector.decode
    # Its outputs are coefficients already.
    parametrization = types.SimpleNamespace(
        decode=lambda raw, shape: raw, mirrored=Shape.mirrored, has_deviations=False
    )

    def __init__(self, shape):
        self.shape = shape

    def normalize(self, images):
        return images

    def from_normalized(self, images):
        def find(images):
            found = []
            for image in images:
                red = (image[..., 0] > 180) & (image[..., 1] < 60)
                count, blocks = cv2.connectedComponents(red.astype(np.uint8))
                sizes = [(blocks == number).sum() for number in range(1, count)]
                block = blocks == 1 + int(np.argmax(sizes)) if sizes else np.ones_like(red)
                found.append(self.shape.fit(block))
            return np.array(found, np.float32)

        outputs = tf.numpy_function(find, [images], tf.float32)
        outputs.set_shape([None, 4])
        return outputs


class SeesRed:
    """Takes an image for class 0 if enough of it is red; where not, it can hardly decide."""

    num_classes, image_size = 3, IMAGE_SIZE

    def normalize(self, images):
        return (ops.cast(images, "float32") - 127.0) / 100.0

    def from_normalized(self, normalized):
        red = ops.cast((normalized[..., 0] > 0.5) & (normalized[..., 1] < -0.6), "float32")
        share = ops.maximum(ops.mean(red, axis=(1, 2)) - 0.01, 0.0)
        return ops.stack([1000 * share, 0 * share + 0.3, 0 * share + 0.2], axis=-1)


@functools.cache
def localizer():
    model = tiny_model("rectangle")
    return Localizer(FindsRed(model.shape), model.generator, SeesRed(), CLASS_NAMES)


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
