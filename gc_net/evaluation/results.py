"""The results of an evaluation, image by image, from which reports and tables are made."""

import dataclasses
import glob
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gc_net.data import transforms
from gc_net.training.callbacks.csv_log import read_log


@dataclasses.dataclass(frozen=True)
class MethodResult:
    """The scores of another method on the same images.

    Attributes:
        name: Key in `metrics.json`, e.g. `"cam_best"`.
        title: Name in tables, e.g. `"CAM, best threshold 0.25"`.
        tuned: Whether a part of it was chosen by the same boxes that it is measured with. Such a
            figure is an upper bound and not a fair comparison; tables mark it.
        metrics: As `Evaluation.metrics`, without those that only GC-Net has.
    """

    name: str
    title: str
    tuned: bool
    metrics: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluation:
    """A model's predictions on a split, and how they compare with the truth.

    Rows are the N images that could be read, in the order of the split. Coordinates are relative
    to the frame, the square the network sees: 0 to 1 spans it, and boxes may reach beyond.

    Attributes:
        model: Folder the model was loaded from.
        dataset, split, protocol: Names.
        frame: `"crop"`, the central window of the squashed image, or `"full"`, all of it.
        image_size: Side S of the frame in pixels.
        resize_size: Side the image was squashed to before the window was taken; S if `"full"`.
        class_names: Names in label order.
        shape: The `Shape`: `shape.name`, `shape.outline(coefficients)`, `shape.coefficient_names`.
        index: [N] int64, place in the split.
        files: N names, relative to the dataset's folder.
        labels: [N] int32.
        sizes: [N, 2] int32, height and width of the original images.
        top_classes: [N, k] int32, the classifier's first k, at most five, best first; of the frame,
            or of the mean with the second look, if there is one.
        top_probabilities: [N, k] float32.
        coefficients: [N, n] float32.
        boxes_rel_xyxy: [N, 4] float32, predicted.
        truth_boxes_rel_xyxy: [N, K, 4] float32, padded with zeros.
        num_truth_boxes: [N] int32; an image with 0 boxes is left out of all localization metrics.
        iou: [N] float64, with the best of an image's boxes, by the protocol's rules; NaN without
            boxes.
        located: [N] bool, whether the protocol counts the box as right at IoU 0.5.
        mask_iou: [N] float64, or None if the dataset has no masks.
        angle_error: [N] float64 degrees from 0 to 90 between main axes, or None if unknown.
        unreadable: (file, reason) of the images that could not be read; no metric counts them.
        metrics: What goes into `metrics.json`: percentages from 0 to 100, `<name>_ci95` beside.
        methods: `MethodResult`s by name, in the order of the table.
        history: Logs of the training stages: {stage: {column: [E] float64}}; empty if none.
        mean_color: [3] float32, RGB 0–255: the colour that masked pixels take.
        read_image: Function of a row to the frame's pixels, uint8 [S, S, 3].
        render_masks: Function of an array of rows [n] to the generator's masks, float32 [n, S, S].
        confidence: [N] float, how sure the model is of each localization; None if unknown.
        folder: Name of the folder of the images; empty if they are drawn.
        title: Name of a trained method that is measured instead of GC-Net, and its cut.
        method_boxes_rel_xyxy: Boxes [N, 4] of each method, by its name, at its own cut.
    """

    model: str
    dataset: str
    split: str
    protocol: str
    frame: str
    image_size: int
    resize_size: int
    class_names: tuple[str, ...]
    shape: Any
    index: np.ndarray
    files: tuple[str, ...]
    labels: np.ndarray
    sizes: np.ndarray
    top_classes: np.ndarray
    top_probabilities: np.ndarray
    coefficients: np.ndarray
    boxes_rel_xyxy: np.ndarray
    truth_boxes_rel_xyxy: np.ndarray
    num_truth_boxes: np.ndarray
    iou: np.ndarray
    located: np.ndarray
    mask_iou: np.ndarray | None
    angle_error: np.ndarray | None
    unreadable: tuple[tuple[str, str], ...]
    metrics: Mapping[str, Any]
    methods: Mapping[str, MethodResult]
    history: Mapping[str, Mapping[str, np.ndarray]]
    mean_color: np.ndarray
    read_image: Callable[[int], np.ndarray]
    render_masks: Callable[[np.ndarray], np.ndarray]
    confidence: np.ndarray | None = None
    folder: str = ""
    title: str = ""
    method_boxes_rel_xyxy: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def __len__(self):
        return len(self.labels)

    @property
    def name(self) -> str:
        """Name in tables of what is measured."""
        return self.title or f"GC-Net, {self.shape.name.replace('_', ' ')}"

    def boxes_in_images(self, boxes_rel_xyxy: np.ndarray) -> np.ndarray:
        """Return boxes [N, ..., 4] of the frame as xyxy in pixels of the original images."""
        boxes = np.asarray(boxes_rel_xyxy, np.float64)
        boxes = transforms.boxes_out_of_center(boxes, self.resize_size, self.image_size)
        scale = np.concatenate([self.sizes[:, ::-1]] * 2, axis=1)  # [N, 4]
        return boxes * scale.reshape(-1, *[1] * (boxes.ndim - 2), 4)


def read_history(model_dir: str | os.PathLike) -> dict[str, dict[str, np.ndarray]]:
    """Return the logs of the stages that trained a model: {stage: {column: [E] float64}}.

    They are `<stage>/log.csv` in the folder of the run, which holds the model's folder and a
    `config.json`. The result is empty for a model outside of a run.
    """
    run_dir = os.path.dirname(os.path.abspath(model_dir))
    if not os.path.exists(os.path.join(run_dir, "config.json")):
        return {}
    history = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(run_dir), "*", "log.csv"))):
        rows = read_log(path)
        if rows:
            names = dict.fromkeys(name for row in rows for name in row)  # an ordered set
            history[os.path.basename(os.path.dirname(path))] = {
                name: np.array([row.get(name, np.nan) for row in rows]) for name in names
            }
    return history
