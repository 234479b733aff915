"""The protocol of Choe et al. (CVPR 2020), and files for their public evaluator.

Their evaluator (clovaai/wsolevaluation) is given score maps of 224 × 224 pixels. It scales them to
8 bits, cuts them at every level, draws a box around the outline of what is left, and compares in
whole pixels, both corners included:

- a true box is cut to whole pixels of the original image, and again after scaling to 224;
- a predicted one runs from its first pixel to the one after its last, at most 223;
- every width and height counts one pixel more than right − left, and IoU ≥ 0.5 is right.

MaxBoxAcc takes the outline with the largest area and is called `corloc` here. MaxBoxAccV2 takes the
outline that fits best, at IoU 0.3, 0.5 and 0.7. GC-Net's score map is its shape, filled with ones.
It is the same at every level, so there is no best threshold.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import cv2
import numpy as np

from gc_net import metrics
from gc_net.atomic_files import replaced_file
from gc_net.evaluation import protocols
from gc_net.evaluation.files import write_text
from gc_net.evaluation.protocols import Protocol

if TYPE_CHECKING:
    from gc_net.data.splits import Split, Truth
    from gc_net.evaluation.results import Evaluation
    from gc_net.shapes.base import Shape

RESOLUTION = 224
# The evaluator tries a thousand cuts, but 8 bits can tell these apart: pixels above 0, 1, …, 254.
_NUM_CUTS = 255
_NOTHING = (0, 0, 0, 0)  # the box of a map that has no outline
_METADATA_NAMES = {"cub": "CUB", "ilsvrc": "ILSVRC"}


class WSOLEval(Protocol):
    """The results that clovaai/wsolevaluation would give."""

    name = "wsoleval"
    frame = "full"
    levels = np.arange(_NUM_CUTS) / _NUM_CUTS

    def hits(self, iou, threshold=0.5):
        return iou >= threshold

    def truth_boxes(self, boxes_rel_xyxy, boxes_xyxy, sizes):
        width_height = np.concatenate([sizes[:, ::-1]] * 2, axis=1)[:, None]  # [N, 1, 4]
        whole = np.trunc(np.maximum(boxes_xyxy, 0.0))
        return np.trunc(whole * RESOLUTION / width_height)

    def compared(self, boxes_rel_xyxy):
        """Return the box that the evaluator would read from a map of ones inside the given box."""
        edges = np.asarray(boxes_rel_xyxy, np.float64) * RESOLUTION - 0.5
        # A pixel belongs to a box that contains its centre.
        first = np.maximum(np.ceil(edges[..., :2]), 0)
        last = np.minimum(np.floor(edges[..., 2:]), RESOLUTION - 1)
        empty = (last < first).any(axis=-1, keepdims=True)
        boxes = np.concatenate([first, np.minimum(last + 1, RESOLUTION - 1)], axis=-1)
        return np.where(empty, _NOTHING, boxes)

    def box_iou(self, boxes_rel_xyxy, truth_boxes, num_truth):
        return metrics.best_iou(self.compared(boxes_rel_xyxy), truth_boxes, num_truth, pixel=1)

    def shape_iou(self, shape, coefficients, truth_boxes, num_truth):
        masks = shape_masks(shape, coefficients)
        items = zip(masks[:, None], truth_boxes, num_truth, strict=True)
        iou = np.stack([_masks_iou(*item) for item in items])
        return iou[:, 0, 0], iou[:, 1, 0]  # [N, 2, 1] to [N] each

    def map_iou(self, maps, truth_boxes, num_truth, image_size, cut=None):
        def masks_of(small):
            if cut is not None:
                large = cv2.resize(small, (RESOLUTION,) * 2, interpolation=cv2.INTER_LINEAR)
                return [large > cut]
            shades = _eight_bits(small)
            return (shades > shade for shade in range(_NUM_CUTS))

        items = zip(maps, truth_boxes, num_truth, strict=True)
        iou = np.stack([_masks_iou(masks_of(small), *item) for small, *item in items])
        return iou[:, 0], iou[:, 1]  # [N, 2, T] to [N, T] each


def shape_masks(shape: "Shape", coefficients: np.ndarray) -> np.ndarray:
    """Return the shapes filled with ones, bool [N, 224, 224]: GC-Net's score maps."""
    return np.asarray(shape.masks(coefficients, RESOLUTION, RESOLUTION))[..., 0] > 0


def _eight_bits(heat_map):
    """Return a heat map as the evaluator sees it: enlarged, from 0 to 255; zeros if constant."""
    large = cv2.resize(
        np.asarray(heat_map, np.float64), (RESOLUTION,) * 2, interpolation=cv2.INTER_CUBIC
    )
    if not np.isfinite(large).all() or large.min() == large.max():
        return np.zeros(large.shape, np.uint8)
    large -= large.min()
    large /= large.max()
    return (large * 255).astype(np.uint8)


def _masks_iou(masks, truth_boxes, num_truth):
    """Return the IoU of one image's masks [T]: of the largest outline, and of the best one.

    Returns:
        [2, T]; NaN for an image without true boxes.
    """
    boxes, cuts, largest = [], [], []
    for cut, mask in enumerate(masks):
        found, place = _outline_boxes(mask)
        largest.append(len(boxes) + place)
        boxes += found
        cuts += [cut] * len(found)
    count = len(boxes)
    truth = np.broadcast_to(truth_boxes, (count, *truth_boxes.shape))
    iou = metrics.best_iou(np.array(boxes), truth, np.full(count, num_truth), pixel=1)
    best = np.full(len(largest), -np.inf)
    with np.errstate(invalid="ignore"):  # NaN stays NaN
        np.maximum.at(best, cuts, iou)
    return np.stack([iou[largest], best])


def _outline_boxes(mask):
    """Return the boxes of a mask's outlines, and the place of the one with the largest area."""
    outlines = cv2.findContours(mask.view(np.uint8), cv2.RETR_TREE, cv2.CHAIN_APPROX_SIMPLE)[-2]
    if not outlines:
        return [_NOTHING], 0
    boxes = []
    for outline in outlines:
        x, y, width, height = cv2.boundingRect(outline)
        right, bottom = min(x + width, RESOLUTION - 1), min(y + height, RESOLUTION - 1)
        boxes.append((x, y, right, bottom))
    return boxes, int(np.argmax([cv2.contourArea(outline) for outline in outlines]))


def check_frame(protocol: Protocol) -> None:
    """Raise if a protocol does not show what score maps must."""
    if protocol.frame != "full":
        raise ValueError(
            f"Score maps show whole images, and the protocol {protocol.name!r} sees only a crop of "
            "them. Evaluate with the protocol 'wsoleval' or 'full'."
        )


def map_writer(
    folder: str | os.PathLike, split: "Split"
) -> Callable[[np.ndarray, np.ndarray], None]:
    """Return a function that writes heat maps as score maps, for `measure.collect`.

    Values are rounded to what the evaluator can distinguish, so it cuts where this protocol cuts.

    Args:
        folder: As for `write_score_maps`.
        split: The `Split` of the images.
    """

    def write(index, maps):
        for place, heat_map in zip(index, maps, strict=True):
            shades = _eight_bits(heat_map)
            # Half a shade above each but the last, so that rounding never changes a shade.
            scores = np.minimum((shades + 0.5) / _NUM_CUTS, 1.0) * (shades.max() > 0)
            _write_map(_map_path(folder, split.file(place)), scores)

    return write


def write_score_maps(
    folder: str | os.PathLike, evaluation: "Evaluation", truth: "Truth", has_maps: bool = False
) -> str:
    """Write score maps and lists as clovaai/wsolevaluation reads them.

        <folder>/scoremaps/<file>.npy                   float32 [224, 224], from 0 to 1
        <folder>/metadata/<name>/<split>/image_ids.txt, class_labels.txt, image_sizes.txt,
            localization.txt

    The evaluator knows datasets with boxes as CUB and ILSVRC; every other dataset is written as
    CUB. Images without a box are left out, because its lists have no place for them.

    Args:
        evaluation: An `Evaluation` of the whole images: protocol `wsoleval` or `full`.
        truth: The split's `Truth`.
        has_maps: Whether the maps are there already, see `map_writer`; if not, they are the shapes,
            filled with ones.

    Returns:
        The command that evaluates them there.
    """
    check_frame(protocols.get(evaluation.protocol))
    name = _METADATA_NAMES.get(evaluation.dataset, "CUB")
    rows = np.flatnonzero(evaluation.num_truth_boxes > 0)
    lists = {"image_ids": [], "class_labels": [], "image_sizes": [], "localization": []}
    for row in rows:
        file = evaluation.files[row]
        if "," in file or "\n" in file:
            raise ValueError(f"The evaluator's lists allow no comma in a file name: {file!r}.")
        height, width = evaluation.sizes[row]
        lists["image_ids"].append(file)
        lists["class_labels"].append(f"{file},{evaluation.labels[row]}")
        lists["image_sizes"].append(f"{file},{width},{height}")
        for box_xyxy in truth.boxes_of(evaluation.index[row]):
            corners = ",".join(str(int(max(value, 0))) for value in box_xyxy)
            lists["localization"].append(f"{file},{corners}")
        if not has_maps:
            mask = shape_masks(evaluation.shape, evaluation.coefficients[row : row + 1])[0]
            _write_map(_map_path(folder, file), mask)
    metadata = os.path.join(folder, "metadata", name, evaluation.split)
    for list_name, lines in lists.items():
        path = os.path.join(metadata, f"{list_name}.txt")
        write_text(path, "".join(f"{line}\n" for line in lines))
    return (
        f"python evaluation.py --scoremap_root={os.path.join(folder, 'scoremaps')} "
        f"--metadata_root={os.path.join(folder, 'metadata')} --dataset_name={name} "
        f"--split={evaluation.split} --multi_contour_eval=true --multi_iou_eval=true"
    )


def _map_path(folder, file):
    return os.path.join(folder, "scoremaps", f"{file}.npy")


def _write_map(path, scores):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with replaced_file(path, "wb") as file:
        np.save(file, scores.astype(np.float32), allow_pickle=False)
