"""The metrics by name, and the table that evaluation prints."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from gc_net.evaluation.checks import GIVE_BOXES
from gc_net.tables import Text


class Metric(NamedTuple):
    """How a metric of `metrics.json` is shown.

    Attributes:
        group, heading: Group, which may be empty, and heading of its column in a table.
        lower_is_better: Whether it is an error.
        meaning: Its meaning in a few words.
        competes: Whether tables mark the best row in it.
    """

    group: str
    heading: str
    lower_is_better: bool
    meaning: str
    competes: bool = True

    @property
    def title(self) -> str:
        """Group and heading, as the title of something."""
        title = f"{self.group} {self.heading}".strip()
        return title[0].upper() + title[1:]


# By key, errors first, as in the paper's tables.
METRICS = {
    "cls_err_top1": Metric("ClsErr", "top-1", True, "first class wrong"),
    "cls_err_top5": Metric("ClsErr", "top-5", True, "first five classes wrong"),
    "loc_err_top1": Metric("LocErr", "top-1", True, "box or first class wrong"),
    "loc_err_top5": Metric("LocErr", "top-5", True, "box or first five classes wrong"),
    "corloc": Metric("", "CorLoc", False, "boxes that match the true one, IoU above 0.5"),
    "corloc_70": Metric("", "IoU > 0.7", False, "boxes that match it closely, IoU above 0.7"),
    "mean_iou": Metric("", "mean IoU", False, "overlap of boxes, on average"),
    "max_box_acc_v2": Metric("", "MaxBoxAccV2", False, "right at IoU 0.3, 0.5 and 0.7, on average"),
    "mask_iou": Metric("", "mask IoU", False, "overlap of the shape with the true mask"),
    "best_mask_iou": Metric(
        "", "mask IoU at best", False, "the best that such a shape can reach", competes=False
    ),
    "angle_error": Metric("", "angle error", True, "between the main axes, on average"),
    "median_angle_error": Metric("", "median angle error", True, "of half of the objects"),
}
# Metrics that all methods have, and that tables of several methods show.
COMPARED = tuple(METRICS)[:8]
_TUNED = "*"


def evaluation_table(metrics: Mapping[str, Any]) -> str:
    """Return the table that evaluation prints, from the content of a `metrics.json`."""
    title = metrics.get("title") or f"GC-Net ({metrics['settings']['shape']})"
    measured = [metrics, *metrics["methods"].values()]
    keys = [key for key in COMPARED if any(key in row for row in measured)]
    rows = [[title, *_cells(metrics, keys)]]
    tuned = False
    for method in metrics["methods"].values():
        tuned = tuned or method["tuned"]
        mark = f" {_TUNED}" if method["tuned"] else ""
        rows.append([method["title"] + mark, *_cells(method, keys)])
    lines = [Text().table([""], [METRICS[key][:2] for key in keys], rows), ""]
    lines.append(_described(metrics))
    if "corloc" in metrics:
        low, high = metrics["corloc_ci95"]
        lines.append(f"CorLoc's 95 % interval: {low:.2f} to {high:.2f}.")
    else:
        lines.append(
            "No image has a true box, so only the classes are measured, without other methods. "
            f"Look at the shapes in report.html. {GIVE_BOXES}"
        )
    if "confidence" in metrics:
        lines.append(_ranking(metrics["confidence"]))
    if "mask_iou" in metrics:
        best = f", of {metrics['best_mask_iou']:.2f} % that such a shape can reach"
        best = best if "best_mask_iou" in metrics else ""
        lines.append(f"Mask IoU: {metrics['mask_iou']:.2f} %{best}.")
    if "angle_error" in metrics:
        lines.append(
            f"Angle error: median {metrics['median_angle_error']:.1f}°, mean "
            f"{metrics['angle_error']:.1f}°, of {metrics['num_angles']:,} objects with a main axis."
        )
    if tuned:
        lines.append(f"{_TUNED} chosen by the boxes of these same images: an upper bound.")
    if "agreement" in metrics:
        lines += ["", metrics["agreement"]["verdict"]]
    return "\n".join(lines)


def _ranking(found):
    fifths = ", ".join(f"{part['corloc']:.1f}" for part in found["fifths"])
    text = f"CorLoc by fifths of confidence, the least certain first: {fifths}."
    if found["auroc"] is None:
        return text
    low, high = found["auroc_ci95"]
    return (
        f"{text} The confidence separates right boxes from wrong ones with an AUROC of "
        f"{found['auroc']:.2f} ({low:.2f} to {high:.2f}); 0.5 is chance."
    )


def _described(metrics):
    left_out = []
    if 0 < metrics["num_without_boxes"] < metrics["num_images"]:
        left_out.append(
            f"{metrics['num_without_boxes']:,} without boxes, left out of all but ClsErr"
        )
    if metrics["num_unreadable"]:
        left_out.append(f"{metrics['num_unreadable']:,} more unreadable, left out")
    crops = ", ClsErr of ten crops" if metrics["ten_crop"] else ""
    second_look = metrics["settings"].get("second_look")
    looks = f", GC-Net's classes with a second look ({second_look:g})" if second_look else ""
    text = (
        f"{metrics['num_images']:,} images of {metrics['dataset']} ({metrics['split']}), protocol "
        f"{metrics['protocol']}{crops}{looks}; percentages."
    )
    return " ".join([text, *(f"{item}." for item in left_out)])


def _cells(metrics, keys):
    return [f"{metrics[key]:.2f}" if key in metrics else "–" for key in keys]
