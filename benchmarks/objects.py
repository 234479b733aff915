"""Several objects in an image: how many of them are found, and how many boxes are of one.

Measured on the images of a dataset that have several true boxes. Only measuring reads them.
"""

from collections.abc import Iterable

import numpy as np

import gc_net
from benchmarks.rounds import table
from gc_net import datasets
from gc_net.data.splits import DataError
from gc_net.evaluation.checks import spread
from gc_net.metrics import box_iou

_HIT = 0.5


def report(
    *,
    model="saved_models/cub_lite",
    dataset="ilsvrc",
    data_dir=None,
    num_images=1_000,
    max_objects=3,
):
    """Measure recall and precision with one object an image, with two, and so on.

    Args:
        model: Folder of a model; it should know the classes of the dataset.
        dataset: Kind of dataset; its test images that have several boxes are looked at.
        data_dir: Folder of the dataset.
        num_images: Most images, spread evenly.
        max_objects: Most objects to look for in an image.
    """
    data = datasets.get(dataset, data_dir=data_dir)
    split, truth = data.split("test"), data.truth("test")
    several = np.array([], int) if truth is None else np.flatnonzero(np.diff(truth.starts) > 1)
    if not len(several):
        raise DataError(f"No test image of {dataset} has several true boxes to measure with.")
    localizer = gc_net.load(model)
    chosen = several[spread(len(several), num_images)]
    found, true = [], []
    looked = localizer.predict_split(
        split, indices=chosen, confidence=False, max_objects=max_objects
    )
    for index, prediction in looked:
        objects = (prediction, *prediction.others)
        found.append(np.array([each.visible_box_xyxy() for each in objects]))
        true.append(truth.boxes_of(index))
    yield (
        f"{len(found):,} images of {dataset} with several boxes, "
        f"{np.mean([len(boxes) for boxes in true]):.1f} on average; a box is right where its IoU "
        f"with a true one that no earlier box has is at least {_HIT}"
    )
    rows = []
    for most in range(1, max_objects + 1):
        counts = count_hits((boxes[:most] for boxes in found), true)
        rows.append([str(most), *(f"{100 * share:.1f}" for share in counts)])
    yield table(["--max_objects", "recall, %", "precision, %"], rows)


def count_hits(found: Iterable[np.ndarray], true: Iterable[np.ndarray]) -> tuple[float, float]:
    """Return recall and precision of the boxes of images, each a list of arrays [n, 4] xyxy."""
    hits = num_found = num_true = 0
    for boxes, true_boxes in zip(found, true, strict=True):
        free = np.ones(len(true_boxes), bool)
        for box in boxes:
            iou = np.where(free, box_iou(box, true_boxes), -1.0)
            if iou.max() >= _HIT:
                free[iou.argmax()] = False
                hits += 1
        num_found += len(boxes)
        num_true += len(true_boxes)
    return hits / max(num_true, 1), hits / max(num_found, 1)
