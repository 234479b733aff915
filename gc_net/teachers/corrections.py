"""Corrected boxes as a teacher: this is no longer weak supervision.

Someone has looked at predictions and corrected some. Of those images the teacher shows the
corrected box; of all others it shows what another teacher does. It is the only teacher that reads
boxes, so it is used only where its name is given. A model that learned from it must not be compared
with methods that see class labels alone.
"""

import dataclasses
import functools
import logging
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from gc_net.data.loading import read_reduced
from gc_net.data.splits import DataError, ImageError
from gc_net.datasets.annotations import read_boxes
from gc_net.datasets.annotations.match import match_images, match_labels
from gc_net.stages.run_folder import RunError
from gc_net.teachers import get
from gc_net.teachers.base import Lesson, Placer, Targets, Teacher, drawn_masks

_SIZE = 32  # images are read for their size only

_log = logging.getLogger("gc_net")


@dataclasses.dataclass(frozen=True)
class Corrections(Teacher):
    """Boxes that someone has corrected, and another teacher's shapes where there is none.

    Attributes:
        file: The boxes: a COCO or Label Studio .json, a .csv, or a folder of Pascal VOC .xml files.
            Of an image with several, the largest is taken. Images that are not trained on are
            passed over.
        source: The teacher of all other images, or `none`, to learn from corrected ones alone.
    """

    name: ClassVar[str] = "corrections"
    file: str = ""
    source: str = "descriptors"

    def check(self, lesson: Lesson) -> None:
        count = len(self._boxes(lesson))
        _log.warning(
            "The teacher reads the boxes of %d of %d training images from %s: this is no longer "
            "weak supervision.",
            count,
            len(lesson.data.split),
            self.file,
        )
        if self._source is not None:
            self._source.check(lesson)

    def placer(self, lesson: Lesson) -> Placer:
        if self._source is None:
            raise RunError("Corrected boxes are known by image; there is nothing to look at.")
        return self._source.placer(lesson)

    def asked(self) -> list[Teacher]:
        return [] if self._source is None else self._source.asked()

    def joined(self, lesson: Lesson, found: Iterator[Targets]) -> Targets:
        if self._source is None:
            targets = Targets.none(len(lesson.data.split), lesson.shape, lesson.with_masks)
        else:
            targets = self._source.joined(lesson, found)
        boxes = self._boxes(lesson)
        indices = np.array(list(boxes))
        left, top, right, bottom = np.array(list(boxes.values()), np.float32).T
        centers_and_extents = [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
        coefficients = np.zeros((len(indices), lesson.shape.num_coefficients), np.float32)
        coefficients[:, :4] = np.stack(centers_and_extents, axis=-1)
        targets.coefficients[indices] = coefficients
        targets.weights[indices] = 1.0
        if lesson.with_masks:
            targets.masks[indices] = drawn_masks(lesson.shape, coefficients)
        return targets

    @functools.cached_property
    def _source(self):
        return None if self.source == "none" else get(self.source)

    def _boxes(self, lesson):
        """Return {index: relative xyxy box} of the training images that have one."""
        return lesson.once((self.name, self.file), lambda: self._read(lesson.data.split))

    def _read(self, split):
        if not self.file:
            raise RunError(
                "The teacher `corrections` needs a file of boxes, e.g. "
                "--warmup_teacher=corrections:file=corrected.json."
            )
        records = read_boxes(self.file)
        files = [split.file(index) for index in range(len(split))]
        indices = match_images(records, files, split.root, others_allowed=True)
        labels = np.where(indices < 0, -1, split.labels[indices])
        match_labels(records, labels, split.class_names)
        largest = {}
        for record, index in zip(records, indices.tolist(), strict=True):
            if index >= 0:
                largest[index] = max(record.box_xyxy, largest.get(index, (0, 0, 0, 0)), key=_area)
        boxes = {}
        for index, box_xyxy in sorted(largest.items()):
            try:
                height, width = read_reduced(split.read, index, _SIZE)[1]
            except ImageError:
                continue  # it is not trained on either
            box = np.clip(np.array(box_xyxy) / (width, height, width, height), 0.0, 1.0)
            if _area(box) > 0:
                boxes[index] = box
        if not boxes:
            raise DataError(
                f"None of the {len(records):,} boxes in {self.file} is of an image that is trained "
                f"on, such as {files[0]!r} in {split.root}."
            )
        return boxes


def _area(box):
    return (box[2] - box[0]) * (box[3] - box[1])
