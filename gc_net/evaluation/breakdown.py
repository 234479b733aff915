"""Localization by class and by object size, from an evaluation's values per image."""

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from gc_net.evaluation.results import Evaluation

# Shares of the image's area that a true box covers. Fixed, so that two runs can be compared.
SIZE_EDGES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)

_Z_95 = 1.959964


class Group(NamedTuple):
    """Some images and how many of them are right.

    Attributes:
        name: Name in the report.
        count: Images that were counted.
        right: Percentage that was located: CorLoc.
        mean_iou: Percentage; NaN without boxes.
        interval: 95 % limits of `right`.
    """

    name: str
    count: int
    right: float
    mean_iou: float
    interval: tuple[float, float]


def by_class(evaluation: "Evaluation") -> list[tuple[int, Group]]:
    """Return (label, `Group`) of every class that has images with boxes, in label order.

    If no image has boxes, all images count, and those with the right class are right.
    """
    counted, right = np.isfinite(evaluation.iou), evaluation.located
    if not counted.any():
        counted, right = ~counted, evaluation.top_classes[:, 0] == evaluation.labels
    labels = evaluation.labels
    return [
        (
            int(label),
            _group(evaluation, counted & (labels == label), evaluation.class_names[label], right),
        )
        for label in np.unique(labels[counted])
    ]


def by_size(evaluation: "Evaluation") -> list[Group]:
    """Return the `Group`s of images whose object covers a similar share of the image.

    An image with several boxes counts by its largest.
    """
    shares = object_shares(evaluation)
    # An annotated object that reaches beyond the image belongs to the last group.
    place = np.digitize(shares, SIZE_EDGES[1:-1])
    known = np.isfinite(evaluation.iou)
    return [
        _group(
            evaluation,
            known & (place == number),
            f"{100 * low:.0f}–{100 * high:.0f} %",
            evaluation.located,
        )
        for number, (low, high) in enumerate(itertools.pairwise(SIZE_EDGES))
        if (known & (place == number)).any()
    ]


def object_shares(evaluation: "Evaluation") -> np.ndarray:
    """Return the share [N] of each image's area that its largest true box covers."""
    boxes = evaluation.truth_boxes_rel_xyxy.astype(np.float64)  # [N, K, 4]
    areas = (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
    is_box = np.arange(boxes.shape[1]) < evaluation.num_truth_boxes[:, None]
    largest = np.where(is_box, areas, 0.0).max(axis=1)
    # So far these are shares of the frame, which is a window of the image.
    return largest * (evaluation.image_size / evaluation.resize_size) ** 2


def wilson_interval(hits: float, count: int) -> tuple[float, float]:
    """Return the 95 % limits, in percent, of a share seen in `count` images (Wilson 1927).

    With a few images that are all right, a bootstrap would give an interval of zero width.
    """
    share = hits / count
    spread = _Z_95 * np.sqrt(share * (1 - share) / count + (_Z_95 / (2 * count)) ** 2)
    middle = share + _Z_95**2 / (2 * count)
    scale = 100 / (1 + _Z_95**2 / count)
    return max(0.0, scale * (middle - spread)), min(100.0, scale * (middle + spread))


def _group(evaluation, chosen, name, right):
    count, hits = int(chosen.sum()), int(right[chosen].sum())
    return Group(
        name=name,
        count=count,
        right=100 * hits / count,
        mean_iou=100 * float(evaluation.iou[chosen].mean()),
        interval=wilson_interval(hits, count),
    )
