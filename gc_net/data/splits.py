"""Datasets: splits of images with labels, and the truth separate from them.

Training gets a `Split` and nothing else. Boxes, masks and angles are in a `Truth`, which only
evaluation uses. So the types show that supervision is weak.
"""

import abc
import dataclasses
import hashlib
import os
from collections.abc import Callable

import numpy as np


class DataError(ValueError):
    """A dataset cannot be used as it is; the message says where, and what to do."""


class ImageError(ValueError):
    """An image cannot be read; the message says why."""


@dataclasses.dataclass(frozen=True)
class Split:
    """Images and labels of one part of a dataset; nothing is decoded yet.

    Attributes:
        name: `"train"` or `"test"`.
        class_names: Names in label order.
        labels: [N] int32.
        files: [N] UTF-8 bytes, names relative to `root`; for drawn images, a name each.
        root: Folder the names are relative to.
        read: Function of an index to one uint8 RGB image [H, W, 3], upright. Raises `ImageError`.
    """

    name: str
    class_names: tuple[str, ...]
    labels: np.ndarray
    files: np.ndarray
    root: str
    read: Callable[[int], np.ndarray]

    def __len__(self):
        return len(self.labels)

    def file(self, index: int) -> str:
        return self.files[index].decode("utf-8")

    def file_stamp(self, index: int) -> tuple[int, int]:
        """Return size and time of an image's file; zeros for an image that is drawn, or gone."""
        try:
            status = os.stat(os.path.join(self.root, os.fsdecode(self.files[index])))
        except OSError:
            return 0, 0
        return status.st_size, status.st_mtime_ns

    def part(self, indices: np.ndarray) -> "Split":
        """Return a split of some of the images, in the given order."""
        indices = np.asarray(indices)
        return dataclasses.replace(
            self,
            labels=self.labels[indices],
            files=self.files[indices],
            read=lambda index: self.read(int(indices[index])),
        )

    def fingerprint(self, indices: np.ndarray | slice = slice(None)) -> str:
        """Return a short text that identifies these images and labels, or some of them."""
        labels = self.labels[indices]
        digest = hashlib.sha256(labels.astype("<i4").tobytes())
        for file in self.files[indices]:
            digest.update(bytes(file) + b"\0")
        return f"{len(labels)} images, {digest.hexdigest()[:16]}"


@dataclasses.dataclass(frozen=True)
class Truth:
    """What evaluation compares with, in the order of its split.

    Attributes:
        boxes: [M, 4] float32, xyxy in pixels of the upright original image, all images' boxes one
            after the other.
        starts: [N + 1] int64; image i owns `boxes[starts[i]:starts[i + 1]]`.
        angles: [N] float32 radians, clockwise on screen, NaN for objects without a main axis; None
            if no angle is known.
        mask: Function of an index to a bool mask [H, W] of the object; None if masks are unknown.
    """

    boxes: np.ndarray
    starts: np.ndarray
    angles: np.ndarray | None = None
    mask: Callable[[int], np.ndarray] | None = None

    def boxes_of(self, index: int) -> np.ndarray:
        return self.boxes[self.starts[index] : self.starts[index + 1]]


class Dataset(abc.ABC):
    """A named source of splits.

    Constructors take `data_dir` and `seed`, and whatever else the source needs.

    Attributes:
        name: Its name among the datasets.
        class_names: Names in label order.
        evaluation_options: Arguments that concern `truth` alone. A run may be resumed with others.
    """

    name: str
    class_names: tuple[str, ...]
    evaluation_options: tuple[str, ...] = ()

    @abc.abstractmethod
    def split(self, name: str) -> Split:
        """Return the `Split` called `"train"` or `"test"`."""

    def class_families(self) -> tuple[str, ...] | None:
        """Return the family of each class, in label order; None if there are none.

        Families are a level above the classes, for methods that learn it too.
        """
        return None

    @abc.abstractmethod
    def truth(self, name: str) -> Truth | None:
        """Return the `Truth` of that split, or None if the dataset has no boxes for it."""
