"""The same centred box for every image, which a method must beat to show that it looks."""

import numpy as np
from numpy.typing import ArrayLike

from gc_net.evaluation.protocols import Protocol
from gc_net.methods.base import Method, Score, hits_by_level

# Sides to try, in units of the frame; a little beyond the frame too, because the paper's crop cuts
# objects off.
_SIDES = np.arange(0.3, 1.2001, 0.02)
_HALF = np.sqrt(0.5)  # sides of half the area


class Constant(Method):
    """A centred box of half the frame's area, and the best of all centred boxes."""

    name = "constant"
    title = "Centred box"

    def boxes(self, maps: np.ndarray | None, num_images: int, image_size: int) -> np.ndarray:
        return np.broadcast_to(centred(_HALF, _HALF), (num_images, 4))

    def scores(self, protocol: Protocol, truth_boxes, num_truth, iou, iou_v2) -> list[Score]:
        best = self.best(protocol, truth_boxes, num_truth)
        return [
            self._score(protocol, truth_boxes, num_truth, _HALF, _HALF, "fixed", "half the area"),
            self._score(protocol, truth_boxes, num_truth, *best, "best", "best"),
        ]

    def best(
        self, protocol: Protocol, truth_boxes: np.ndarray, num_truth: np.ndarray
    ) -> tuple[float, float]:
        """Return width and height of the centred box that is right most often."""
        is_box = np.arange(truth_boxes.shape[1]) < num_truth[:, None]  # [N, K]
        # Without padding, because a few images of ILSVRC have many boxes and most have one.
        boxes, ones = truth_boxes[is_box][:, None], np.ones(is_box.sum(), int)
        counts = num_truth[num_truth > 0]
        starts = np.cumsum(counts) - counts
        found = (-1, 0.0, 0.0)
        for width in _SIDES:
            boxes_rel_xyxy = centred(width, _SIDES)[None]  # [1, J, 4]
            hits = protocol.hits(protocol.box_iou(boxes_rel_xyxy, boxes, ones))  # [M, J]
            hits = np.logical_or.reduceat(hits, starts, axis=0).sum(axis=0)  # [J]
            found = max(found, (int(hits.max()), width, _SIDES[hits.argmax()]))
        return found[1:]

    def _score(self, protocol, truth_boxes, num_truth, width, height, kind, title):
        boxes_rel_xyxy = np.broadcast_to(centred(width, height), (len(num_truth), 4))
        iou = protocol.box_iou(boxes_rel_xyxy, truth_boxes, num_truth)
        return Score(
            f"{self.name}_{kind}",
            f"{self.title}, {title} {width:.2f} × {height:.2f}",
            kind == "best",
            iou,
            hits_by_level(protocol, iou),
        )


def centred(width: ArrayLike, height: ArrayLike) -> np.ndarray:
    """Return `boxes_rel_xyxy` [..., 4] of boxes in the middle of the frame."""
    half_width, half_height = np.broadcast_arrays(np.asarray(width) / 2, np.asarray(height) / 2)
    return np.stack(
        [0.5 - half_width, 0.5 - half_height, 0.5 + half_width, 0.5 + half_height], axis=-1
    )
