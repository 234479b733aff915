"""A folder of your own photos, one directory per class.

    my_photos/                     or    my_photos/
        cats/                                train/cats/…
            any/nesting/a.jpg                train/dogs/…
        dogs/                                val/cats/…       (or valid, validation, test)
            b.png                            val/dogs/…

Boxes are optional, and only evaluation reads them. They may be a COCO JSON, a CSV or a folder of
Pascal VOC XMLs (`gc_net.datasets.annotations`). These names are found in the folder without an
option: `boxes.csv`, `boxes.json`, `annotations.csv`, `annotations.json`, `_annotations.coco.json`,
and XML files below `annotations/` or `Annotations/`.
"""

import dataclasses
import os
import warnings

import numpy as np

from gc_net.data.decode import IMAGE_EXTENSIONS
from gc_net.data.index import list_images
from gc_net.data.listing import unread_pictures
from gc_net.data.names import some
from gc_net.data.splits import DataError, Dataset
from gc_net.datasets.annotations import read_boxes
from gc_net.datasets.annotations.match import match_images, match_labels
from gc_net.datasets.folder_layout import check_classes, find_layout, seeded_test_mask
from gc_net.datasets.image_files import (
    check_split_name,
    existing_folder,
    file_split,
    join_boxes,
)

BOX_FILES = (
    "boxes.csv",
    "boxes.json",
    "annotations.csv",
    "annotations.json",
    "_annotations.coco.json",
)
BOX_FOLDERS = ("annotations", "Annotations")


class Folder(Dataset):
    """Your own images, one directory per class.

    Args:
        data_dir: Folder of the class folders, or of `train` and `val` that hold them.
        seed: Picks the test images if the folder has no `val` or `test`.
        boxes: Path of a box file, as given or below `data_dir`; searched for if None.
        test_fraction: Part of each class that becomes test images.

    Example:
        train = Folder("my_photos").split("train")
    """

    name = "folder"
    evaluation_options = ("boxes",)

    def __init__(
        self, data_dir: str, seed: int = 0, boxes: str | None = None, test_fraction: float = 0.2
    ):
        if not 0 < test_fraction < 1:
            raise ValueError(f"test_fraction must lie between 0 and 1. Received: {test_fraction}.")
        self.data_dir = existing_folder(data_dir)
        self.seed = seed
        self.test_fraction = test_fraction
        self._boxes = self._find_boxes(boxes)
        listing = _without_box_folders(list_images(self.data_dir), self._boxes)
        layout = find_layout(listing)
        check_classes(self.data_dir, layout.train, listing)
        self.class_names = tuple(layout.train.counts)
        self._files = listing.files
        self._labels, self._is_test = self._assign(listing, layout)
        self._warn(listing, layout)

    def split(self, name):
        chosen = self._chosen(name)
        return file_split(
            name, self.class_names, self._labels[chosen], self._files[chosen], self.data_dir
        )

    def unread_pictures(self) -> list[str]:
        """Return the names of pictures of kinds that cannot be read, such as raw ones."""
        return unread_pictures(self.data_dir, IMAGE_EXTENSIONS)

    def truth(self, name):
        chosen = self._chosen(name)
        if not self._boxes:
            return None
        if len(self._boxes) > 1:
            raise DataError(
                f"{self.data_dir} holds several box files: {some(self._boxes)}. Name the one to "
                "read with boxes=…"
            )
        records = read_boxes(self._boxes[0])
        files = [file.decode() for file in self._files.tolist()]
        images = match_images(records, files, self.data_dir)
        match_labels(records, self._labels[images], self.class_names)
        boxes_xyxy = np.array([record.box_xyxy for record in records]).reshape(-1, 4)
        if len(boxes_xyxy) and boxes_xyxy.max() <= 1:
            raise DataError(
                f"{self._boxes[0]}: every coordinate is at most 1, so they seem to be relative. "
                "Expected pixels."
            )
        positions = np.full(len(self._files), -1)
        positions[chosen] = np.arange(len(chosen))
        inside = positions[images] >= 0
        if not inside.any():
            return None
        return join_boxes(positions[images][inside], boxes_xyxy[inside], len(chosen))

    def _chosen(self, name):
        check_split_name(name)
        wanted = self._is_test if name == "test" else ~self._is_test
        return np.flatnonzero(wanted & (self._labels >= 0))

    def _find_boxes(self, boxes):
        """Return the paths of box files; more than one is an error when boxes are read."""
        if boxes is not None:
            boxes = os.path.expanduser(os.fspath(boxes))
            inside = os.path.join(self.data_dir, boxes)
            found = next((path for path in (boxes, inside) if os.path.exists(path)), None)
            if found is None:
                raise DataError(f"The box file {boxes} does not exist, nor does {inside}.")
            return [os.path.abspath(found)]
        # By listed names: some file systems would find one file under both spellings.
        names = sorted(os.listdir(self.data_dir))
        paths = {name: os.path.join(self.data_dir, name) for name in names}
        found = [paths[name] for name in names if name in BOX_FILES]
        return found + [paths[n] for n in names if n in BOX_FOLDERS and _holds_xml(paths[n])]

    def _assign(self, listing, layout):
        """Return the label of each image, −1 if it is left out, and its split."""
        label_of = {name: label for label, name in enumerate(self.class_names)}
        parts = [part for part in (layout.train, layout.test) if part is not None]
        unknown = [name for part in parts for name in part.filled if name not in label_of]
        if unknown:
            raise DataError(
                f"{len(unknown)} classes have test images in "
                f"{os.path.join(self.data_dir, layout.test.prefix)} but no training images in "
                f"{os.path.join(self.data_dir, layout.train.prefix)}: {some(unknown)}. Give "
                "both the same folders, or remove these."
            )
        labels = np.full(len(listing.folders), -1, dtype=np.int32)
        is_test = np.zeros(len(listing.folders), dtype=bool)
        for position, folder in enumerate(listing.folders):
            for part in parts:
                name = part.class_of(folder)
                if name is not None:
                    labels[position] = label_of.get(name, -1)
                    is_test[position] = part is layout.test
        labels = np.repeat(labels, listing.counts)
        if layout.test is not None:
            return labels, np.repeat(is_test, listing.counts)
        inside = np.flatnonzero(labels >= 0)
        is_test = np.zeros(len(labels), dtype=bool)
        is_test[inside] = seeded_test_mask(
            listing.files[inside], labels[inside], self.seed, self.test_fraction
        )
        return labels, is_test

    def _warn(self, listing, layout):
        """Warn of what was left out, and of classes that cannot be tested."""
        messages = []
        loose = layout.train.loose + (layout.test.loose if layout.test else 0)
        if loose:
            messages.append(f"{loose:,} images lie outside the folders of the classes")
        if layout.left_out:
            messages.append(f"images in other folders than the splits': {some(layout.left_out)}")
        listing.warn_of_left_out(messages, stacklevel=3)
        tested = np.bincount(
            self._labels[self._is_test & (self._labels >= 0)], minlength=len(self.class_names)
        )
        untested = [self.class_names[label] for label in np.flatnonzero(tested == 0)]
        if untested:
            warnings.warn(
                f"{len(untested)} of the {len(self.class_names)} classes have no test image: "
                f"{some(untested)}. Their figures will be missing from the evaluation.",
                stacklevel=3,
            )


def _without_box_folders(listing, boxes):
    """Return the listing without folders that hold only annotations and are no classes."""
    names = {os.path.relpath(path, listing.root).replace(os.sep, "/") for path in boxes}
    keep = np.ones(len(listing.folders), dtype=bool)
    for name in names.union(BOX_FOLDERS):
        inside = np.array([f"{folder}/".startswith(f"{name}/") for folder in listing.folders])
        if not listing.counts[inside].any():
            keep &= ~inside
    return dataclasses.replace(
        listing,
        folders=[listing.folders[position] for position in np.flatnonzero(keep)],
        counts=listing.counts[keep],
        stamps=listing.stamps[keep],
    )


def _holds_xml(folder):
    return any(name.lower().endswith(".xml") for _, _, names in os.walk(folder) for name in names)
