"""ILSVRC2012 in its CLS-LOC layout, as the challenge and Kaggle give it out.

    ILSVRC/
        Data/CLS-LOC/train/<wnid>/*.JPEG
        Data/CLS-LOC/val/*.JPEG
        Annotations/CLS-LOC/val/*.xml     boxes and classes of val, or
    LOC_val_solution.csv                  the same in one file, which is read first
    LOC_synset_mapping.txt                <wnid> <names>

The two lists may lie in the `ILSVRC` folder or beside it. Labels are the places of the 1,000 wnids
in ascending order, as in pretrained classifiers, even if there are fewer folders. Boxes are taken
as they are written, in pixels counted from 0.
"""

import functools
import os
import warnings

import numpy as np

from gc_net.data.index import list_images
from gc_net.data.names import some
from gc_net.data.splits import DataError, Dataset
from gc_net.datasets.ilsvrc_lists import read_solution, read_synsets, read_xmls, short_names
from gc_net.datasets.image_files import check_split_name, data_folder, file_split, join_boxes

_IMAGES = os.path.join("Data", "CLS-LOC")
_FOLDER_OF_SPLIT = {"train": "train", "test": "val"}
_MAPPING = "LOC_synset_mapping.txt"
_SOLUTION = "LOC_val_solution.csv"


class ILSVRC(Dataset):
    """ILSVRC2012: 1,000 classes, 1.28 million training images, several boxes a test image.

    The test split is the challenge's validation set, as in the literature. Folders are listed when
    a split is used, from an index if there is one (`gc_net.data.index`).

    Args:
        data_dir: The `ILSVRC` folder or the one that holds it.
        seed: Not used; the split is part of the data.
    """

    name = "ilsvrc"

    def __init__(self, data_dir: str, seed: int = 0):
        self.data_dir = data_folder(data_dir, _IMAGES, "ILSVRC")
        self.seed = seed
        synsets = self._read_synsets()
        self._label_of = {wnid: label for label, wnid in enumerate(synsets)}
        self.class_names = tuple(short_names(synsets))

    def split(self, name):
        listing = self._listing(name)
        labels = self._labels_of_folders(listing)
        labels = np.repeat(labels, listing.counts)
        if name == "test" and (labels < 0).any():
            self._label_by_annotation(listing, labels)
        if (labels < 0).any():
            loose = [file.decode() for file in listing.files[labels < 0][:6]]
            raise DataError(
                f"{listing.root} holds {np.count_nonzero(labels < 0):,} images outside the folders "
                f"of the classes: {some(loose)}. Expected {listing.root}/<wnid>/*.JPEG."
            )
        if name == "train":
            self._warn_of_empty_classes(labels)
        return file_split(name, self.class_names, labels, listing.files, listing.root)

    def truth(self, name):
        """Return the boxes of the test split; boxes of training images are never read."""
        check_split_name(name)
        if name == "train" or self._annotations is None:
            return None
        files = self._listing(name).files
        indices, boxes = [], []
        for index, file in enumerate(files):
            annotation = self._annotations.get(_image_id(file))
            if annotation is not None:
                indices.extend([index] * len(annotation.boxes_xyxy))
                boxes.extend(annotation.boxes_xyxy)
        return join_boxes(indices, boxes, len(files))

    def _listing(self, name):
        check_split_name(name)
        root = os.path.join(self.data_dir, _IMAGES, _FOLDER_OF_SPLIT[name])
        if not os.path.isdir(root):
            raise DataError(f"The folder {root} of the {name} images does not exist.")
        listing = list_images(root)
        if not len(listing.files):
            raise DataError(
                f"No image is below {root}; found {listing.other_files()}. "
                "Unpack the image archives there."
            )
        return listing

    def _labels_of_folders(self, listing):
        """Return the label of each folder's images, −1 for images outside any class's folder."""
        labels = np.full(len(listing.folders), -1, dtype=np.int32)
        unknown = []
        for position, folder in enumerate(listing.folders):
            if folder:
                wnid = folder.partition("/")[0]
                labels[position] = self._label_of.get(wnid, -1)
                if wnid not in self._label_of and wnid == folder:
                    unknown.append(wnid)
        if unknown:
            raise DataError(
                f"{listing.root} holds folders that are not among the {len(self._label_of):,} "
                f"classes of {_MAPPING}: {some(unknown)}. Move them elsewhere or correct the list."
            )
        return labels

    def _label_by_annotation(self, listing, labels):
        """Fill in the labels that are −1."""
        if self._annotations is None:
            raise DataError(
                f"The images in {listing.root} have no labels: there is neither {_SOLUTION} nor a "
                f"folder {self._xml_folder}. Copy one of them there."
            )
        unlabelled = []
        for index in np.flatnonzero(labels < 0):
            image_id = _image_id(listing.files[index])
            if image_id in self._annotations:
                labels[index] = self._label_of[self._annotations[image_id].wnid]
            else:
                unlabelled.append(listing.files[index].decode())
        if unlabelled:
            raise DataError(
                f"{len(unlabelled):,} of the {len(labels):,} images in {listing.root} are not in "
                f"{self._find(_SOLUTION) or self._xml_folder}: {some(unlabelled)}."
            )
        if len(self._annotations) > len(labels):
            warnings.warn(
                f"{len(labels):,} of the {len(self._annotations):,} annotated test images are in "
                f"{listing.root}; figures are for this subset.",
                stacklevel=3,
            )

    def _warn_of_empty_classes(self, labels):
        counts = np.bincount(labels, minlength=len(self.class_names))
        empty = [self.class_names[label] for label in np.flatnonzero(counts == 0)]
        if empty:
            warnings.warn(
                f"{len(empty):,} of the {len(self.class_names):,} classes have no training image: "
                f"{some(empty)}. Labels keep their places among all the classes.",
                stacklevel=3,
            )

    @property
    def _xml_folder(self):
        return os.path.join(self.data_dir, "Annotations", "CLS-LOC", "val")

    def _find(self, name):
        for folder in (self.data_dir, os.path.dirname(self.data_dir)):
            if os.path.isfile(os.path.join(folder, name)):
                return os.path.join(folder, name)
        return None

    @functools.cached_property
    def _annotations(self):
        """{image id: `Annotation`} of the test split, or None if there is no such file."""
        if self._find(_SOLUTION):
            return read_solution(self._find(_SOLUTION), self._label_of)
        if os.path.isdir(self._xml_folder):
            return read_xmls(self._xml_folder, self._label_of)
        return None

    def _read_synsets(self):
        path = self._find(_MAPPING)
        if path is not None:
            return read_synsets(path)
        folder = os.path.join(self.data_dir, _IMAGES, "train")
        wnids = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        if len(wnids) != 1000:
            raise DataError(
                f"There is no {_MAPPING} in {self.data_dir} or beside it, and {folder} holds "
                f"{len(wnids)} folders instead of 1,000, so the labels are not known."
            )
        return {wnid: wnid for wnid in wnids}


def _image_id(file):
    return os.path.splitext(os.path.basename(file.decode()))[0]
