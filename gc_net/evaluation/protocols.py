"""Protocols: what the network sees of an image, and when a box counts as right.

| | `paper` | `full` | `wsoleval` |
|---|---|---|---|
| the network sees | the central crop, 224 of 256 | the whole image | the whole image |
| a predicted box | may reach beyond the crop | is clipped to the image | is read from 224² pixels |
| a true box | may reach beyond the crop | stays as it is | is in whole pixels of these |
| its width | right − left | right − left | right − left + 1 |
| right if | IoU > 0.5 | IoU > 0.5 | IoU ≥ 0.5 |

Images are squashed to a square in all of them, whatever their aspect ratio.

`paper` is the measure of the authors and of the methods they compare with. True boxes include parts
of an object that the crop cuts off, so a detector is also measured by pixels it cannot see.
`gc-net predict` looks at images in the same way. `full` is for models that see whole images; no
object lies outside the image, so predicted boxes are clipped. `wsoleval` gives the results of the
public evaluator of Choe et al. (clovaai/wsolevaluation) for masks as score maps; see
`gc_net.evaluation.wsoleval`.
"""

from typing import TYPE_CHECKING

import numpy as np

from gc_net import heat_maps, metrics
from gc_net.registry import Registry

if TYPE_CHECKING:
    from gc_net.shapes.base import Shape


class Protocol:
    """How predictions of one image set are compared with its truth.

    Attributes:
        name: Name in the registry.
        frame: `"crop"` or `"full"`, see `gc_net.data.pipeline.evaluation_batches`.
        levels: [T] cuts of a heat map between 0, its lowest value, and 1, its highest.
    """

    name: str
    frame: str
    levels = np.arange(1, 40) / 40

    def hits(self, iou: np.ndarray, threshold: float = 0.5) -> np.ndarray:
        """Return whether an IoU is good enough, bool of the same shape; False for NaN."""
        return iou > threshold

    def truth_boxes(
        self, boxes_rel_xyxy: np.ndarray, boxes_xyxy: np.ndarray, sizes: np.ndarray
    ) -> np.ndarray:
        """Return the true boxes [N, K, 4] in the units boxes are compared in.

        Args:
            boxes_rel_xyxy: [N, K, 4], relative to the frame.
            boxes_xyxy: [N, K, 4], in pixels of the original images.
            sizes: [N, 2], height and width of those.
        """
        return boxes_rel_xyxy

    def box_iou(
        self, boxes_rel_xyxy: np.ndarray, truth_boxes: np.ndarray, num_truth: np.ndarray
    ) -> np.ndarray:
        """Return the IoU [N, ...] of boxes [N, ..., 4] given in relative coordinates."""
        return metrics.best_iou(self.compared(boxes_rel_xyxy), truth_boxes, num_truth)

    def compared(self, boxes_rel_xyxy: np.ndarray) -> np.ndarray:
        """Return predicted boxes in the form in which they are compared."""
        return boxes_rel_xyxy

    def shape_iou(
        self,
        shape: "Shape",
        coefficients: np.ndarray,
        truth_boxes: np.ndarray,
        num_truth: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the IoU of shapes for CorLoc, and their IoU for MaxBoxAccV2.

        Args:
            coefficients: [N, n].

        Returns:
            Two arrays [N].
        """
        boxes_rel_xyxy = np.asarray(shape.boxes(coefficients))
        iou = self.box_iou(boxes_rel_xyxy, truth_boxes, num_truth)
        return iou, iou

    def map_iou(
        self,
        maps: np.ndarray,
        truth_boxes: np.ndarray,
        num_truth: np.ndarray,
        image_size: int,
        cut: float | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the IoU of the boxes that heat maps give at every level.

        Args:
            maps: [N, h, w] float, of any resolution.
            image_size: Side of the frame, to which the maps are enlarged.
            cut: None to try `levels`, or one value in the maps' own units.

        Returns:
            Two arrays [N, T], as for `shape_iou`; T is 1 with `cut`.
        """
        boxes_rel_xyxy = heat_maps.boxes(maps, self.levels, image_size, cut)  # [N, T, 4]
        iou = self.box_iou(boxes_rel_xyxy, truth_boxes, num_truth)
        return iou, iou


class Paper(Protocol):
    """The 224-of-256 crop; boxes are not clipped to it."""

    name = "paper"
    frame = "crop"


class Full(Protocol):
    """The whole image; predicted boxes are clipped to it."""

    name = "full"
    frame = "full"

    def compared(self, boxes_rel_xyxy):
        return np.clip(boxes_rel_xyxy, 0.0, 1.0)


PROTOCOLS = Registry(
    "protocol",
    {
        "paper": Paper,
        "full": Full,
        "wsoleval": "gc_net.evaluation.wsoleval:WSOLEval",
    },
)


def get(name: str | Protocol) -> Protocol:
    """Return the protocol called `name`; a protocol passes through."""
    return PROTOCOLS.get(name)() if isinstance(name, str) else name
