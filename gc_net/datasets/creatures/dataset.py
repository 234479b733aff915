"""The embedded dataset: creatures told apart by their heads, drawn on demand."""

import functools
import operator

import cv2
import numpy as np

from gc_net.datasets.base import DataError, Dataset, Split, Truth
from gc_net.datasets.creatures.anatomy import grow
from gc_net.datasets.creatures.canvas import composite, paint_layer, similarity
from gc_net.datasets.creatures.heads import HEADS
from gc_net.datasets.creatures.scenes import paint_scene

_SPLITS = ("train", "test")
_EXTENT = (0.45, 0.85)  # longer side of a creature's box, relative to the image
_MARGIN = 0.02  # of the image, kept free around it
_SHORTEST = 0.72  # shorter side of an image, relative to the longer
_MIN_IMAGE_SIZE = 32


class Creatures(Dataset):
    """Ten kinds of elongated creatures at any angle, on cluttered ground.

    The class lies in the head, a small part; the body hints at it (see
    `anatomy.BODY_EVIDENCE`). So a class activation map finds the head, and a good localizer the
    whole. Box, mask and angle of each creature are exact.

    An image depends on `(seed, split, index)` alone: it is drawn when it is read, in any order,
    and the same each time. Two thirds of the images are not square.

    Args:
        data_dir: Must be None: nothing is read from disk.
        seed: Non-negative integer; another seed gives other images.
        num_classes: How many of the ten kinds, from 2 on.
        num_train: Number of training images.
        num_test: Number of test images.
        image_size: Longer side of an image in pixels.

    Example:
        dataset = Creatures(seed=1, num_train=100)
        image = dataset.split("train").read(7)  # uint8 [H, W, 3]
        box_xyxy = dataset.truth("train").boxes_of(7)[0]
    """

    name = "creatures"

    def __init__(
        self, data_dir=None, seed=0, num_classes=10, num_train=2000, num_test=500, image_size=160
    ):
        if data_dir is not None:
            raise DataError(
                f"The creatures are drawn, not read: data_dir must be None. Received: "
                f"data_dir={data_dir!r}. For your own images use the dataset 'folder'."
            )
        self.seed = _integer("seed", seed, 0)
        self.num_classes = _integer("num_classes", num_classes, 2, len(HEADS))
        self.num_train = _integer("num_train", num_train, 1)
        self.num_test = _integer("num_test", num_test, 1)
        self.image_size = _integer("image_size", image_size, _MIN_IMAGE_SIZE)
        self.class_names = tuple(HEADS)[: self.num_classes]

    def split(self, name):
        labels = self._labels(name)
        files = [
            f"{name}/{index:05d}-{self.class_names[label]}.png".encode()
            for index, label in enumerate(labels)
        ]
        return Split(
            name=name,
            class_names=self.class_names,
            labels=labels,
            files=np.array(files),
            root="creatures",
            read=functools.partial(self._draw, name),
        )

    @functools.cache  # noqa: B019 (a handful of datasets live as long as the process)
    def truth(self, name):
        count = len(self._labels(name))
        boxes = np.empty((count, 4), np.float32)
        angles = np.empty(count, np.float32)
        for index in range(count):
            mask = self.mask(name, index)
            boxes[index] = tight_box(mask)
            angles[index] = main_axis(mask)
        return Truth(
            boxes=boxes,
            starts=np.arange(count + 1, dtype=np.int64),
            angles=angles,
            mask=functools.partial(self.mask, name),
        )

    def mask(self, name, index):
        """Return the bool mask [H, W] of the creature in one image."""
        creature, matrix, height, width = self._place(name, index)
        return _cover((creature.body, creature.head), matrix, height, width)

    def part_mask(self, name, index):
        """Return the bool mask [H, W] of the head, the part that carries the class."""
        creature, matrix, height, width = self._place(name, index)
        return _cover((creature.head,), matrix, height, width)

    def part_box(self, name, index):
        """Return the box [4] of the head, xyxy in pixels."""
        return tight_box(self.part_mask(name, index))

    def _labels(self, name):
        """Return balanced labels [N] in random order."""
        split = _split_number(name)
        count = (self.num_train, self.num_test)[split]
        labels = np.arange(count, dtype=np.int32) % self.num_classes
        return np.random.default_rng((self.seed, split)).permutation(labels)

    def _place(self, name, index):
        """Return the creature of one image, its transform to pixels, and the image's size."""
        labels = self._labels(name)
        index = range(len(labels))[index]
        rng = np.random.default_rng((self.seed, _split_number(name), index, 0))
        creature = grow(rng, int(labels[index]), self.class_names)

        side, ratio, angle, extent, *place = rng.random(6)
        short = round(self.image_size * (_SHORTEST + (1 - _SHORTEST) * ratio))
        sizes = ((self.image_size, self.image_size), (short, self.image_size),
                 (self.image_size, short))  # fmt: skip
        height, width = sizes[int(3 * side)]
        size = np.array((width, height))

        turn = similarity(1.0, 2 * np.pi * angle, mirror=bool(rng.integers(2)))
        low, high = creature.bounds(turn)
        scale = (_EXTENT[0] + (_EXTENT[1] - _EXTENT[0]) * extent) / np.max((high - low) / size)
        free = size * (1 - 2 * _MARGIN) - scale * (high - low)
        matrix = scale * turn
        matrix[:, 2] = size * _MARGIN + free * place - scale * low
        return creature, matrix, height, width

    def _draw(self, name, index):
        creature, matrix, height, width = self._place(name, index)
        index = range(len(self._labels(name)))[index]
        rng = np.random.default_rng((self.seed, _split_number(name), index, 1))
        towards = -np.pi / 2 + rng.uniform(-0.9, 0.9)
        light = (float(np.cos(towards)), float(np.sin(towards)))
        image = paint_scene(rng, height, width, light)
        layer = paint_layer((creature.body, creature.head), matrix, height, width)
        composite(image, layer, light, relief=0.06 * np.hypot(matrix[0, 0], matrix[1, 0]))
        return np.clip(image, 0, 255).astype(np.uint8)


def tight_box(mask):
    """Return the box [4] around the true pixels of a mask: xyxy, edges of pixels, float32."""
    x, y, width, height = cv2.boundingRect(mask.astype(np.uint8))
    return np.array((x, y, x + width, y + height), np.float32)


def main_axis(mask):
    """Return the direction of a mask's longest spread, in (−π/2, π/2], clockwise on screen."""
    moments = cv2.moments(mask.astype(np.uint8), binaryImage=True)
    angle = 0.5 * np.arctan2(2 * moments["mu11"], moments["mu20"] - moments["mu02"])
    return angle if angle > -np.pi / 2 else np.pi / 2


def _cover(sketches, matrix, height, width):
    return paint_layer(sketches, matrix, height, width, channels=1) >= 128


def _split_number(name):
    if name not in _SPLITS:
        raise DataError(f"Unknown split {name!r} of the dataset 'creatures'. Known: train, test.")
    return _SPLITS.index(name)


def _integer(name, value, low, high=None):
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or number < low or (high is not None and number > high):
        expected = f"an integer of at least {low}" if high is None else f"from {low} to {high}"
        raise DataError(f"{name} must be {expected}. Received: {name}={value!r}.")
    return number
