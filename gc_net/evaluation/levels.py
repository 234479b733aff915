"""Levels to cut heat maps at, chosen without boxes: those that agree best with a teacher's boxes.

A method that needs a level has one from its authors, found on other images with another network.
The best level on the test boxes is an oracle. Between these two is a choice with labels alone, as
Murtaza et al. propose ("A realistic protocol for evaluation of weakly supervised object
localization", 2024): some training images get pseudo-boxes, and the level is the one whose boxes
are right most often by these. Right means what CorLoc means, because that is what is measured then:
the mean IoU hardly differs over a wide range of levels. Here the pseudo-boxes come from the
teachers of the warm-up, which read no box.
"""

import dataclasses
import hashlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gc_net import heat_maps, shapes, teachers
from gc_net.data import transforms
from gc_net.data.splits import DataError, Dataset, Split
from gc_net.evaluation.batches import readable_batches
from gc_net.evaluation.checks import spread
from gc_net.methods.base import HeatMapMethod, Method
from gc_net.metrics import box_iou
from gc_net.run_files import RunError
from gc_net.stages.config import DataConfig
from gc_net.teachers.base import Lesson
from gc_net.teachers.targets import find_targets
from gc_net.training.data import TrainingData

if TYPE_CHECKING:
    from gc_net.localizer import Localizer
    from gc_net.methods.localizer import MethodLocalizer

AUTO = "auto"
# For backbones with weights that know objects, and for backbones without.
_COMMITTEE = "committee"
_COMMITTEE_OF_THE_CLASSIFIER = "descriptors:weights=classifier+silhouettes:weights=classifier"
_LEVELS = np.arange(1, 40) / 40
_NUM_IMAGES = 300
_RIGHT = 0.5  # a box is right if its IoU is higher


class PseudoBoxes(NamedTuple):
    """A teacher's boxes of some training images.

    Attributes:
        split: The `Split` of only these images.
        boxes_rel_xyxy: [N, 4], relative to the whole images; NaN if an image has no box.
        weights: [N], how far each is to be trusted.
    """

    split: Split
    boxes_rel_xyxy: np.ndarray
    weights: np.ndarray


def choose_levels(
    methods: Sequence[Method],
    localizer: "Localizer | MethodLocalizer",
    dataset: Dataset,
    teacher: str = AUTO,
    folder: str | None = None,
    batch_size: int = 32,
) -> None:
    """Give each of the methods that cuts heat maps at a level its `chosen_level`.

    Args:
        methods: `Method`s, fitted to the classifier of `localizer`.
        localizer: The `Localizer`, or `MethodLocalizer`.
        dataset: The `Dataset`, of which up to 300 training images are used.
        teacher: A teacher, see `gc_net.teachers`; `"auto"` for the committee.
        folder: Where to keep the teacher's boxes, for other models of the same images; None to ask
            the teacher each time.
    """
    from gc_net.evaluation.measure import batch_function

    methods = [method for method in methods if isinstance(method, HeatMapMethod)]
    if not methods:
        return
    known = pseudo_boxes(localizer, dataset, teacher, folder)
    image_size, resize_size = localizer.image_size, localizer.resize_size
    window = transforms.center_window(resize_size, image_size)
    targets = transforms.boxes_in_window(
        known.boxes_rel_xyxy, (1, 1), window, resize_size, image_size
    )
    run = batch_function(localizer, methods, ten_crop=False)
    right = {method.name: np.zeros(len(_LEVELS)) for method in methods}
    overlap = {method.name: np.zeros(len(_LEVELS)) for method in methods}
    for batch in readable_batches(
        known.split,
        indices=np.flatnonzero(known.weights > 0),
        batch_size=batch_size,
        image_size=resize_size,
        frame="full",
        label="Choosing levels",
    ):
        maps = run(batch["image"], batch["label"])["maps"]
        index = batch["index"].numpy()
        wanted, weights = targets[index][:, None], known.weights[index][:, None]
        for name, values in maps.items():
            boxes = heat_maps.boxes(values.numpy(), _LEVELS, image_size)  # [B, T, 4]
            iou = box_iou(boxes, wanted)
            right[name] += (weights * (iou > _RIGHT)).sum(axis=0)
            overlap[name] += (weights * iou).sum(axis=0)
    for method in methods:
        # Of levels with as many right boxes, the one with the highest mean IoU.
        order = np.lexsort((overlap[method.name], right[method.name]))
        method.chosen_level = float(_LEVELS[order[-1]])


def pseudo_boxes(
    localizer: "Localizer | MethodLocalizer", dataset: Dataset, teacher: str, folder: str | None
) -> PseudoBoxes:
    """Return a teacher's boxes of training images, spread evenly; see `choose_levels`."""
    weights = localizer.record.settings.get("network", {}).get("weights", "imagenet")
    if teacher == AUTO:
        teacher = _COMMITTEE if weights != "none" else _COMMITTEE_OF_THE_CLASSIFIER
    split = _some(dataset.split("train"))
    data = DataConfig(image_size=localizer.image_size, resize_size=localizer.resize_size)
    classifier = localizer.classifier
    lesson = Lesson(
        TrainingData(split, data, seed=0),
        shapes.get("rectangle"),
        classifier.backbone,
        weights,
        classifier,
    )
    asked = teachers.get(teacher)
    try:
        asked.check(lesson)
        targets = find_targets(asked, lesson, _file(folder, teacher, split), folder is not None)
    except (RunError, DataError) as error:
        raise ValueError(f"The teacher {teacher!r} cannot choose a level: {error}") from error
    boxes = np.asarray(lesson.shape.boxes(targets.coefficients))
    weights = np.where(np.isfinite(boxes[:, 0]), targets.weights, 0.0)
    return PseudoBoxes(split, boxes, weights)


def _some(split):
    """Return a `Split` of some of the images."""
    indices = spread(len(split), _NUM_IMAGES)
    return dataclasses.replace(
        split,
        labels=split.labels[indices],
        files=split.files[indices],
        read=lambda index: split.read(int(indices[index])),
    )


def _file(folder, teacher, split):
    if folder is None:
        return ""  # which no file is called
    told = hashlib.sha256(f"{teacher}\n{split.fingerprint()}".encode()).hexdigest()[:12]
    return os.path.join(folder, f"pseudo_boxes_{told}.npz")
