"""The JSON files of an evaluation."""

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from gc_net.atomic_files import replaced_file

if TYPE_CHECKING:
    from gc_net.evaluation.results import Evaluation

METRICS_FILE = "metrics.json"


def evaluation_folder(model_dir: str | os.PathLike) -> str:
    """Return the default folder of a model's evaluation.

    It stands beside the model of a run, which is called `model`. For any other model it is inside
    the model's folder, because models side by side would share it.
    """
    model_dir = os.path.abspath(os.path.expanduser(model_dir))
    parent, name = os.path.split(model_dir)
    return os.path.join(parent if name == "model" else model_dir, "evaluation")


def predictions(evaluation: "Evaluation") -> dict[str, Any]:
    """Return the content of `predictions.json`: a header, and a record for every image.

    Boxes, those of other methods and true boxes are xyxy in pixels of the original images;
    coefficients are relative to the frame the network saw.
    """
    boxes_xyxy = evaluation.boxes_in_images(evaluation.boxes_rel_xyxy)
    truth_xyxy = evaluation.boxes_in_images(evaluation.truth_boxes_rel_xyxy)
    of_methods = {
        name: evaluation.boxes_in_images(boxes)
        for name, boxes in evaluation.method_boxes_rel_xyxy.items()
        if np.isfinite(boxes).all()
    }
    records = []
    for row, file in enumerate(evaluation.files):
        record = {
            "file": file,
            "label": int(evaluation.labels[row]),
            "class": evaluation.class_names[evaluation.labels[row]],
            "top_classes": [evaluation.class_names[label] for label in evaluation.top_classes[row]],
            "top_probabilities": _rounded(evaluation.top_probabilities[row], 5),
            "coefficients": _rounded(evaluation.coefficients[row], 5),
            "box_xyxy": _rounded(boxes_xyxy[row], 2),
            "truth_boxes_xyxy": _rounded(truth_xyxy[row, : evaluation.num_truth_boxes[row]], 2),
            "iou": _number(evaluation.iou[row]),
            "located": bool(evaluation.located[row]),
        }
        for name in ("confidence", "mask_iou", "angle_error"):
            values = getattr(evaluation, name)
            if values is not None:
                record[name] = _number(values[row])
        if of_methods:
            record["method_boxes_xyxy"] = {
                name: _rounded(boxes[row], 2) for name, boxes in of_methods.items()
            }
        records.append(record)
    return {
        "dataset": evaluation.dataset,
        "split": evaluation.split,
        "protocol": evaluation.protocol,
        "frame": evaluation.frame,
        "image_size": evaluation.image_size,
        "resize_size": evaluation.resize_size,
        "shape": evaluation.shape.name,
        "coefficient_names": list(evaluation.shape.coefficient_names),
        "unreadable": [list(item) for item in evaluation.unreadable],
        "images": records,
    }


def write_json(path: str | os.PathLike, content: Any) -> None:
    """Write `content` to `path`, all at once."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a text file, all at once; its folder is made if necessary."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with replaced_file(path) as file:
        file.write(text)


def _rounded(values, decimals):
    return np.round(np.asarray(values, np.float64), decimals).tolist()


def _number(value):
    return round(float(value), 5) if np.isfinite(value) else None
