"""Several objects in an image: how many of them are found, and how many boxes are of one.

Measured on the images of a dataset that have several true boxes, or on pairs: pictures of two
images of one class side by side. Only measuring reads boxes.
"""

from collections.abc import Iterable

import cv2
import numpy as np

import gc_net
from benchmarks.rounds import table
from gc_net import datasets
from gc_net.data.splits import DataError
from gc_net.evaluation.checks import spread
from gc_net.metrics import box_iou

_HIT = 0.5
_RIGHT = f"a box is right where its IoU with a true one that no earlier box has is at least {_HIT}"
# Side of the images of a pair, in pixels.
_HEIGHT = 240


def report(
    *,
    model="saved_models/cub_lite",
    dataset="ilsvrc",
    data_dir=None,
    num_images=1_000,
    max_objects=3,
    pairs=0,
):
    """Measure recall and precision with one object an image, with two, and so on.

    Args:
        model: Folder of a model; it should know the classes of the dataset.
        dataset: Kind of dataset; its test images that have several boxes are looked at.
        data_dir: Folder of the dataset.
        num_images: Most images, spread evenly.
        max_objects: Most objects to look for in an image.
        pairs: Number of pairs to make of images with one box, in place of images with several. The
            first image of each pair is measured by itself too: there, another shape is wrong.
    """
    data = datasets.get(dataset, data_dir=data_dir)
    split, truth = data.split("test"), data.truth("test")
    if pairs:
        yield from _report_pairs(gc_net.load(model), split, truth, pairs, max_objects, dataset)
        return
    several = np.array([], int) if truth is None else np.flatnonzero(np.diff(truth.starts) > 1)
    if not len(several):
        raise DataError(f"No test image of {dataset} has several true boxes to measure with.")
    localizer = gc_net.load(model)
    chosen = several[spread(len(several), num_images)]
    true = {index: truth.boxes_of(index) for index in chosen}
    yield (
        f"{len(true):,} images of {dataset} with several boxes, "
        f"{np.mean([len(boxes) for boxes in true.values()]):.1f} on average; {_RIGHT}"
    )

    def look(most):
        options = {"indices": chosen, "confidence": False, "max_objects": most}
        looked = dict(localizer.predict_split(split, **options))
        return [looked.get(index) for index in chosen]

    yield _table(look, list(true.values()), max_objects)


def _report_pairs(localizer, split, truth, count, max_objects, dataset):
    pairs = pairs_of(split.labels, np.diff(truth.starts) == 1, count)
    pictures = [joined(*((split.read(i), truth.boxes_of(i)) for i in pair)) for pair in pairs]
    singles = [(split.read(first), truth.boxes_of(first)) for first, _ in pairs]
    for title, examples in (("pairs of images", pictures), ("images, the first of pairs", singles)):
        images, true = zip(*examples, strict=True)

        def look(most, images=images):
            return localizer.predict(list(images), max_objects=most)

        yield f"{len(images):,} {title}, of {dataset}; {_RIGHT}"
        yield _table(look, true, max_objects)


def _table(look, true, max_objects):
    """Return the table of a function of the most objects to predictions, None if unreadable."""
    rows = []
    for most in range(1, max_objects + 1):
        looked = [each.objects if each else () for each in look(most)]
        found = [[each.visible_box_xyxy() for each in objects] for objects in looked]
        counts = count_hits(found, true)
        shares = (
            *(f"{100 * share:.1f}" for share in counts),
            f"{np.mean(list(map(len, found))):.2f}",
        )
        rows.append([str(most), *shares])
    return table(["--max_objects", "recall, %", "precision, %", "boxes an image"], rows)


def pairs_of(labels: np.ndarray, usable: np.ndarray, count: int) -> list[tuple[int, int]]:
    """Return pairs of usable images of one class that follow each other, spread evenly."""
    order = np.flatnonzero(usable)
    order = order[np.argsort(labels[order], kind="stable")]
    starts = np.flatnonzero(labels[order][:-1] == labels[order][1:])
    chosen = starts[spread(len(starts), count)]
    return [(int(order[start]), int(order[start + 1])) for start in chosen]


def joined(*examples: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return images side by side, at one height, and their boxes [n, 4] xyxy in the picture."""
    images, boxes, left = [], [], 0
    for image, own_boxes in examples:
        scale = _HEIGHT / image.shape[0]
        width = max(1, round(scale * image.shape[1]))
        images.append(cv2.resize(image, (width, _HEIGHT), interpolation=cv2.INTER_AREA))
        boxes.append(own_boxes * np.tile([width / image.shape[1], scale], 2) + [left, 0, left, 0])
        left += width
    return np.concatenate(images, axis=1), np.concatenate(boxes)


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
