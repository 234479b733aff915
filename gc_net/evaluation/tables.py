"""Tables of metrics as text."""

from gc_net.evaluation.checks import GIVE_BOXES

# Key in `metrics.json`, heading. Errors first, as in the paper's tables.
COLUMNS = (
    ("cls_err_top1", "ClsErr top-1"),
    ("cls_err_top5", "top-5"),
    ("loc_err_top1", "LocErr top-1"),
    ("loc_err_top5", "top-5"),
    ("corloc", "CorLoc"),
    ("corloc_70", "IoU > 0.7"),
    ("mean_iou", "mean IoU"),
    ("max_box_acc_v2", "MaxBoxAccV2"),
)
_TUNED = "*"


def evaluation_table(metrics):
    """Return the table that evaluation prints, from the content of a `metrics.json`."""
    own = f"GC-Net ({metrics['settings']['shape']})"
    rows = [["", *(heading for _, heading in COLUMNS)], [own, *_cells(metrics)]]
    tuned = False
    for method in metrics["methods"].values():
        tuned = tuned or method["tuned"]
        mark = f" {_TUNED}" if method["tuned"] else ""
        rows.append([method["title"] + mark, *_cells(method)])
    lines = [aligned(rows), ""]
    lines.append(_described(metrics))
    if "corloc" in metrics:
        low, high = metrics["corloc_ci95"]
        lines.append(f"CorLoc's 95 % interval: {low:.2f} to {high:.2f}.")
    else:
        lines.append(
            "No image has a true box, so only the classes are measured, without other methods and "
            f"report. {GIVE_BOXES}"
        )
    if "mask_iou" in metrics:
        lines.append(f"Mask IoU: {metrics['mask_iou']:.2f} %.")
    if "angle_error" in metrics:
        lines.append(
            f"Angle error: median {metrics['median_angle_error']:.1f}°, mean "
            f"{metrics['angle_error']:.1f}°, of {metrics['num_angles']:,} objects with a main axis."
        )
    if tuned:
        lines.append(f"{_TUNED} chosen by the boxes of these very images: an upper bound.")
    return "\n".join(lines)


def _described(metrics):
    left_out = []
    if 0 < metrics["num_without_boxes"] < metrics["num_images"]:
        left_out.append(
            f"{metrics['num_without_boxes']:,} without boxes, left out of all but ClsErr"
        )
    if metrics["num_unreadable"]:
        left_out.append(f"{metrics['num_unreadable']:,} more unreadable, left out")
    crops = ", ClsErr of ten crops" if metrics["ten_crop"] else ""
    look = metrics["settings"].get("look")
    looks = f", GC-Net's classes with a second look ({look:g})" if look else ""
    text = (
        f"{metrics['num_images']:,} images of {metrics['dataset']} ({metrics['split']}), protocol "
        f"{metrics['protocol']}{crops}{looks}; percentages."
    )
    return " ".join([text, *(f"{item}." for item in left_out)])


def _cells(metrics):
    return [f"{metrics[key]:.2f}" if key in metrics else "–" for key, _ in COLUMNS]


def aligned(rows):
    """Return rows of texts as lines: the first column to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        first, *others = (
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join([first, *others]).rstrip())
    lines.insert(1, "─" * (sum(widths) + 2 * (len(widths) - 1)))
    return "\n".join(lines)
