"""Caltech-UCSD Birds-200-2011 in its original layout.

    CUB_200_2011/
        classes.txt               <class id> <folder name>
        images.txt                <image id> <file below images/>
        image_class_labels.txt    <image id> <class id>
        train_test_split.txt      <image id> <1 = train, 0 = test>
        bounding_boxes.txt        <image id> <x> <y> <width> <height>
        parts/parts.txt           <part id> <name>
        parts/part_locs.txt       <image id> <part id> <x> <y> <1 = visible>
        images/

Ids may have gaps, as in a partial copy. Boxes and parts are for evaluation only; the parts may be
missing.

The axis of a bird is the line from its beak to its tail. It is known if both are visible, if at
least six parts are visible, and if the parts spread at least 1.8 times as far along their main
direction as across it. A bird that faces the camera shows no axis.
"""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gc_net.data.names import some
from gc_net.data.splits import DataError, Dataset
from gc_net.datasets.annotations.annotation import make_box
from gc_net.datasets.image_files import (
    check_split_name,
    data_folder,
    file_split,
    join_boxes,
    read_lines,
)

FOLDER = "CUB_200_2011"
_BOXES = "bounding_boxes.txt"
_PART_NAMES = os.path.join("parts", "parts.txt")
_PARTS = os.path.join("parts", "part_locs.txt")
_MIN_PARTS = 6
_MIN_ELONGATION = 1.8


@dataclasses.dataclass(frozen=True)
class Lists:
    """The text files of a copy, joined by image id; boxes are not among them.

    Attributes:
        class_names: Readable names in label order.
        image_ids: [N] int64, ascending.
        files: [N] names below `images/`.
        labels: [N] int32.
        is_train: [N] bool.
    """

    class_names: tuple[str, ...]
    image_ids: np.ndarray
    files: list[str]
    labels: np.ndarray
    is_train: np.ndarray


class CUB(Dataset):
    """CUB-200-2011: 200 kinds of birds, one box an image.

    Args:
        data_dir: The `CUB_200_2011` folder or the one that holds it.
        seed: Not used; the split is part of the data.
        num_classes: Take only this many classes, spread evenly over the list, for short trials; all
            if None.

    Example:
        split = CUB("data/CUB_200_2011").split("train")
    """

    name = "cub"

    def __init__(self, data_dir: str, seed: int = 0, num_classes: int | None = None):
        self.data_dir = data_folder(data_dir, "images.txt", FOLDER)
        self.seed = seed
        self._root = os.path.join(self.data_dir, "images")
        self._lists = read_lists(self.data_dir)
        self._classes = _some_classes(len(self._lists.class_names), num_classes)
        self.class_names = tuple(self._lists.class_names[label] for label in self._classes)
        missing = missing_files(self._root, self._lists.files)
        if missing:
            raise DataError(
                f"{len(missing):,} of the {len(self._lists.files):,} images listed in "
                f"{os.path.join(self.data_dir, 'images.txt')} are not in {self._root}: "
                f"{some(missing)}. Copy them there, or take their lines out of images.txt, "
                "image_class_labels.txt, train_test_split.txt and bounding_boxes.txt."
            )
        self._check_every_class_is_trained()

    def split(self, name):
        chosen = self._chosen(name)
        files = [self._lists.files[index] for index in chosen]
        labels = np.searchsorted(self._classes, self._lists.labels[chosen]).astype(np.int32)
        return file_split(name, self.class_names, labels, files, self._root)

    def class_families(self):
        # "Laysan Albatross" is an albatross.
        return tuple(name.split()[-1] for name in self.class_names)

    def truth(self, name):
        chosen = self._chosen(name)
        if not os.path.exists(os.path.join(self.data_dir, _BOXES)):
            return None
        boxes = read_boxes(self.data_dir, self._lists.image_ids)
        image_ids = self._lists.image_ids[chosen].tolist()
        boxes = [boxes[image_id] for image_id in image_ids]
        truth = join_boxes(np.arange(len(chosen)), boxes, len(chosen))
        if not os.path.exists(os.path.join(self.data_dir, _PARTS)):
            return truth
        angles = read_axes(self.data_dir)
        return dataclasses.replace(
            truth, angles=np.array([angles.get(i, np.nan) for i in image_ids], np.float32)
        )

    def _chosen(self, name):
        check_split_name(name)
        is_in_split = self._lists.is_train == (name == "train")
        return np.flatnonzero(is_in_split & np.isin(self._lists.labels, self._classes))

    def _check_every_class_is_trained(self):
        labels = self._lists.labels[self._lists.is_train]
        empty = [self._lists.class_names[label] for label in np.setdiff1d(self._classes, labels)]
        if empty:
            raise DataError(
                f"{len(empty)} of the {len(self.class_names)} classes in "
                f"{os.path.join(self.data_dir, 'classes.txt')} have no training image: "
                f"{some(empty)}. Add images, or take these classes out of classes.txt."
            )


def read_lists(data_dir: str) -> Lists:
    """Return the `Lists` of the copy in `data_dir`; a `DataError` names the file and line."""

    def path(name):
        return os.path.join(data_dir, name)

    folders = read_by_id(path("classes.txt"), str)
    label_of_class = {class_id: label for label, class_id in enumerate(sorted(folders))}
    images = read_by_id(path("images.txt"), _relative_file)
    image_ids = np.array(sorted(images), dtype=np.int64)

    def label(text):
        class_id = int(text)
        if class_id not in label_of_class:
            raise ValueError(f"class {class_id} is not one of the {len(folders)} in classes.txt")
        return label_of_class[class_id]

    labels = read_by_id(path("image_class_labels.txt"), label, image_ids)
    is_train = read_by_id(path("train_test_split.txt"), _flag, image_ids)
    order = image_ids.tolist()
    return Lists(
        class_names=tuple(readable_name(folders[class_id]) for class_id in sorted(folders)),
        image_ids=image_ids,
        files=[images[image_id] for image_id in order],
        labels=np.array([labels[image_id] for image_id in order], dtype=np.int32),
        is_train=np.array([is_train[image_id] for image_id in order], dtype=bool),
    )


def read_boxes(data_dir: str, image_ids: Sequence[int]) -> dict[int, tuple[float, ...]]:
    """Return {image id: xyxy in pixels}; there must be one box for each of `image_ids`."""
    return read_by_id(os.path.join(data_dir, _BOXES), _box, image_ids)


def read_axes(data_dir: str) -> dict[int, float]:
    """Return {image id: angle of the bird's axis in radians}, for those that have one.

    Angles are in (−π/2, π/2], clockwise on screen, in pixels of the original image.
    """
    names = read_by_id(os.path.join(data_dir, _PART_NAMES), str)
    part_ids = {name: part_id for part_id, name in names.items()}
    for name in ("beak", "tail"):
        if name not in part_ids:
            raise DataError(f"{os.path.join(data_dir, _PART_NAMES)} has no part called {name!r}.")
    visible = {}
    for place, line in read_lines(os.path.join(data_dir, _PARTS)):
        try:
            image_id, part_id, x, y, is_visible = line.split()
            point = float(x), float(y)
            if not np.isfinite(point).all():
                raise ValueError("expected finite coordinates")
            if _flag(is_visible):
                visible.setdefault(_identity(image_id), {})[_identity(part_id)] = point
        except ValueError as error:
            raise DataError(f"{place}: cannot read {line!r}: {error}.") from error
    axes = {
        image_id: axis_of(parts, part_ids["beak"], part_ids["tail"])
        for image_id, parts in visible.items()
    }
    return {image_id: angle for image_id, angle in axes.items() if angle is not None}


def axis_of(parts: Mapping[int, tuple], beak: int, tail: int) -> float | None:
    """Return the angle of a bird's axis in radians, or None if it shows no axis.

    Args:
        parts: {part id: (x, y)} of the visible parts.
        beak, tail: Ids of the two ends of the axis.
    """
    if beak not in parts or tail not in parts or len(parts) < _MIN_PARTS:
        return None
    points = np.array(list(parts.values()))  # [P, 2]
    spreads = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    if spreads[0] < _MIN_ELONGATION * spreads[1]:
        return None
    (beak_x, beak_y), (tail_x, tail_y) = parts[beak], parts[tail]
    angle = np.arctan2(beak_y - tail_y, beak_x - tail_x)
    # An axis has no direction: half a turn gives the same axis.
    return float(angle - np.pi * np.ceil(angle / np.pi - 0.5))


def read_by_id(
    path: str | os.PathLike, parse: Callable[..., Any], image_ids: Sequence[int] | None = None
) -> dict[int, Any]:
    """Return {id: parsed rest of the line} of one of CUB's lists.

    Args:
        path: A text file of lines `<id> <value>`.
        parse: Function of the text after the id; a `ValueError` becomes a `DataError` with the
            file and line.
        image_ids: If given, exactly the ids that must be there.
    """
    known = None if image_ids is None else set(image_ids.tolist())
    values = {}
    for place, line in read_lines(path):
        identity, _, rest = line.partition(" ")
        try:
            identity = _identity(identity)
            value = parse(rest.strip())
        except ValueError as error:
            raise DataError(f"{place}: cannot read {line!r}: {error}.") from error
        if identity in values:
            raise DataError(f"{place}: the id {identity} is there a second time.")
        if known is not None and identity not in known:
            raise DataError(f"{place}: the image id {identity} is not in images.txt.")
        values[identity] = value
    if known is None and not values:
        raise DataError(f"{path} is empty.")
    missing = sorted(known.difference(values)) if known is not None else []
    if missing:
        raise DataError(
            f"{path} has no line for {len(missing):,} of the {len(known):,} image ids in "
            f"images.txt: {some(missing)}."
        )
    return values


def missing_files(root: str, files: Iterable[str]) -> list[str]:
    """Return those of `files` that are not below `root`, looking into each folder once."""
    present = {}
    missing = []
    for file in files:
        folder, _, name = file.rpartition("/")
        if folder not in present:
            try:
                present[folder] = set(os.listdir(os.path.join(root, folder)))
            except OSError:
                present[folder] = set()
        if name not in present[folder]:
            missing.append(file)
    return missing


def readable_name(folder: str) -> str:
    """Return `"Black footed Albatross"` for `"001.Black_footed_Albatross"`."""
    number, dot, name = folder.partition(".")
    return (name if dot and number.isdecimal() else folder).replace("_", " ").strip()


def _some_classes(total, num_classes):
    """Return the labels, ascending, of `num_classes` out of `total` classes."""
    if num_classes is None:
        return np.arange(total)
    if not isinstance(num_classes, int) or not 1 <= num_classes <= total:
        raise DataError(
            f"`num_classes` must be an integer from 1 to {total}. Received: {num_classes!r}."
        )
    return np.linspace(0, total - 1, num_classes).round().astype(int)


def _identity(text):
    identity = int(text)
    if not 0 <= identity < 2**31:
        raise ValueError("expected an id from 0 to 2,147,483,647")
    return identity


def _relative_file(text):
    parts = text.split("/")
    if not text or os.path.isabs(text) or {"..", ""} & set(parts) or "\0" in text:
        raise ValueError("expected the name of a file below images/")
    return text


def _flag(text):
    if text not in ("0", "1"):
        raise ValueError("expected 1 for train or 0 for test")
    return text == "1"


def _box(text):
    numbers = [float(number) for number in text.split()]
    if len(numbers) != 4 or not min(numbers[2:]) > 0:
        raise ValueError("expected x, y and a positive width and height")
    x, y, width, height = numbers
    return make_box("x y width height", x, y, x + width, y + height)
