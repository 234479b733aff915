"""Small models and datasets for the tests of evaluation."""

import dataclasses
import functools

import numpy as np

import gc_net
from gc_net.data.splits import Dataset, ImageError, Split, Truth
from gc_net.generators.model import ModelGenerator
from tests import models

CLASS_NAMES = ("red", "green", "blue")
SIZE = 32


class Blocks(Dataset):
    """Grey images, 40 × 60, each with one bright rectangle in the colour of its class.

    Args:
        num_test: Images of the test split; 12 of training.
        bad: Test images that cannot be read.
        without_boxes: Test images that have no box.
    """

    name = "blocks"
    class_names = CLASS_NAMES

    def __init__(self, num_test=9, bad=(), without_boxes=(), boxes=True, class_names=CLASS_NAMES):
        self.class_names = tuple(class_names)
        self._counts = {"train": 12, "test": num_test}
        self._bad = bad
        self._without_boxes = without_boxes
        self._boxes = boxes

    def split(self, name):
        count = self._counts[name]
        return Split(
            name=name,
            class_names=self.class_names,
            labels=(np.arange(count) % len(CLASS_NAMES)).astype(np.int32),
            files=np.array([f"{name}/{index}.png".encode() for index in range(count)] or [b""])[
                :count
            ],
            root="blocks",
            read=functools.partial(self._read, name),
        )

    def truth(self, name):
        if not self._boxes:
            return None
        kept = [i for i in range(self._counts[name]) if i not in self._without_boxes]
        boxes = np.array([self.box(index) for index in kept], np.float32).reshape(-1, 4)
        has_box = np.isin(np.arange(self._counts[name]), kept)
        starts = np.concatenate([[0], np.cumsum(has_box)]).astype(np.int64)
        return Truth(boxes=boxes, starts=starts)

    def box(self, index):
        rng = np.random.default_rng(index)
        left, top = rng.integers(0, 25), rng.integers(0, 15)
        return left, top, left + rng.integers(15, 30), top + rng.integers(10, 20)

    def _read(self, name, index):
        if name == "test" and index in self._bad:
            raise ImageError("truncated")
        image = np.full((40, 60, 3), 90, np.uint8)
        left, top, right, bottom = self.box(index)
        image[top:bottom, left:right] = 40
        image[top:bottom, left:right, index % 3] = 250
        return image


class Masked(Blocks):
    """The same with masks and angles: the rectangles lie, so their axis is 0."""

    def truth(self, name):
        count = self._counts[name]

        def mask(index):
            left, top, right, bottom = self.box(index)
            mask = np.zeros((40, 60), bool)
            mask[top:bottom, left:right] = True
            return mask

        return dataclasses.replace(
            super().truth(name), mask=mask, angles=np.zeros(count, np.float32)
        )


def tiny_model(shape="rotated_ellipse", num_classes=3, head="native"):
    """Return an untrained GCNet of 32 pixels."""
    return gc_net.GCNet(
        gc_net.Detector("tiny", shape, SIZE, weights=None),
        ModelGenerator(shape, SIZE),
        gc_net.Classifier("tiny", num_classes, SIZE, head=head, weights=None),
    )


def localizer_of(model, class_names=CLASS_NAMES, resize_size=37, **options):
    """Return the `Localizer` of a `GCNet`, which sees the paper's part of an image."""
    return models.localizer_of(model, class_names, resize_size=resize_size, **options)


def set_coefficients(model, coefficients):
    """Make the detector place the same shape in every image."""
    outputs = model.detector.head.get_layer("outputs")
    encode = model.detector.parametrization.encode
    outputs.kernel.assign(np.zeros(outputs.kernel.shape))
    outputs.bias.assign(np.asarray(encode(np.array(coefficients, np.float32), model.shape)))
