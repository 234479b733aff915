"""The embedded dataset: creatures whose heads differ by class, drawn on demand."""

import functools
import operator

import cv2
import numpy as np

from gc_net.data.splits import DataError, Dataset, Split, Truth
from gc_net.datasets.creatures.anatomy import grow
from gc_net.datasets.creatures.heads import HEADS
from gc_net.datasets.creatures.placement import PlacedCreature
from gc_net.datasets.creatures.scenes import paint_scene
from gc_net.datasets.image_files import SPLIT_NAMES, check_split_name

_MIN_IMAGE_SIZE = 32


class Creatures(Dataset):
    """Ten kinds of elongated creatures at any angle, on cluttered ground.

    The head, a small part, shows the class; the body hints at it (see `anatomy.BODY_EVIDENCE`). So
    a class activation map leans to the head, and a good localizer finds the whole creature. Box,
    mask and angle of each creature are exact.

    An image depends only on `(seed, split, index)`, `num_classes` and `image_size`. It is drawn
    when it is read. It is the same each time, in any order, and when the split grows. Two thirds of
    the images are not square.

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
        self,
        data_dir: str | None = None,
        seed: int = 0,
        num_classes: int = 10,
        num_train: int = 2000,
        num_test: int = 500,
        image_size: int = 160,
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

        counts = (self.num_train, self.num_test)
        self._labels = {
            name: self._balanced_labels(number, count)
            for number, (name, count) in enumerate(zip(SPLIT_NAMES, counts, strict=True))
        }
        self._truths = {}

    def _balanced_labels(self, split_number, count):
        """Return labels [count]: all classes in random order, again and again."""
        rounds = -(-count // self.num_classes)
        labels = np.tile(np.arange(self.num_classes, dtype=np.int32), (rounds, 1))
        rng = np.random.default_rng((self.seed, split_number))
        return rng.permuted(labels, axis=1).ravel()[:count]

    def split(self, name):
        check_split_name(name)
        files = [
            f"{name}/{index:05d}-{self.class_names[label]}.png".encode()
            for index, label in enumerate(self._labels[name])
        ]
        return Split(
            name=name,
            class_names=self.class_names,
            labels=self._labels[name],
            files=np.array(files),
            root="creatures",
            read=functools.partial(self._draw, name),
        )

    def truth(self, name):
        check_split_name(name)
        if name not in self._truths:
            self._truths[name] = self._measure(name)
        return self._truths[name]

    def _measure(self, name):
        count = len(self._labels[name])
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

    def mask(self, name: str, index: int) -> np.ndarray:
        """Return the bool mask [H, W] of the creature in one image."""
        view = self._view(name, index)
        return view.mask(view.creature)

    def part_mask(self, name: str, index: int) -> np.ndarray:
        """Return the bool mask [H, W] of the head, the part that carries the class."""
        view = self._view(name, index)
        return view.mask(view.head)

    def _rng(self, name, index, purpose):
        return np.random.default_rng((self.seed, SPLIT_NAMES.index(name), index, purpose))

    def _view(self, name, index):
        index = range(len(self._labels[name]))[index]  # negative ones count from the end
        rng = self._rng(name, index, 0)
        creature, head = grow(rng, int(self._labels[name][index]), self.class_names)
        return PlacedCreature.random(rng, creature, head, self.image_size)

    def _draw(self, name, index):
        index = range(len(self._labels[name]))[index]
        view = self._view(name, index)
        rng = self._rng(name, index, 1)
        light = np.exp(1j * rng.uniform(-0.8, -0.2) * np.pi)
        return view.draw(paint_scene(rng, view.height, view.width, light), light)


def tight_box(mask: np.ndarray) -> np.ndarray:
    """Return the box [4] around the true pixels of a mask: xyxy, edges of pixels, float32."""
    x, y, width, height = cv2.boundingRect(mask.astype(np.uint8))
    return np.array((x, y, x + width, y + height), np.float32)


def main_axis(mask: np.ndarray) -> float:
    """Return the direction of a mask's longest spread, in (−π/2, π/2], clockwise on screen."""
    moments = cv2.moments(mask.astype(np.uint8), binaryImage=True)
    angle = 0.5 * np.arctan2(2 * moments["mu11"], moments["mu20"] - moments["mu02"])
    return angle if angle > -np.pi / 2 else np.pi / 2


def _integer(name, value, low, high=None):
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or number < low or (high is not None and number > high):
        expected = f"an integer of at least {low}" if high is None else f"from {low} to {high}"
        raise DataError(f"{name} must be {expected}. Received: {name}={value!r}.")
    return number
