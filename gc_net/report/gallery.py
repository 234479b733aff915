"""Examples for the report: the choice of images, their thumbnails, and the drawings on them."""

import base64

import numpy as np
from markupsafe import Markup

from gc_net.data.splits import ImageError
from gc_net.evaluation.results import Evaluation
from gc_net.figures.contact_sheet import classes_in_turn
from gc_net.figures.drawing import resize, to_uint8
from gc_net.figures.grids import outlines
from gc_net.figures.picture_files import encode
from gc_net.pages import environment

# Key: heading and explanation.
GROUPS = {
    "best": ("Best", "the highest IoU"),
    "median": ("Median", "around the median IoU"),
    "worst": ("Worst", "the lowest IoU"),
    "doubtful": ("Doubtful", "the least certain"),
    "sample": ("Sample", "drawn at random, the classes in turn"),
}
_EACH = 6  # best, median and worst cases
_DOUBTFUL = 24
_SAMPLE = 240  # at least one of every class of CUB
_SCENE_SIZE, _PART_SIZE = 224, 136  # pixels of the image, and of its object and background
_QUALITY = 72
_MASKS_AT_ONCE = 32
_UNITS = 1000  # the drawing over an image spans this much


def choose(evaluation: Evaluation, seed: int = 0) -> dict[str, np.ndarray]:
    """Return {group: rows}; a row is in one group at most.

    If there are true boxes, only images that have one are shown. If there are none, images come
    first that the model is least certain of.
    """
    rows = np.flatnonzero(np.isfinite(evaluation.iou))
    if len(rows):
        order = rows[np.argsort(-evaluation.iou[rows], kind="stable")]
        each = min(_EACH, len(order) // 3)
        middle = (len(order) - each) // 2
        chosen = {
            "best": order[:each],
            "median": order[middle : middle + each],
            "worst": order[len(order) - each :][::-1],
        }
    else:
        rows = np.arange(len(evaluation))
        chosen = {"doubtful": np.argsort(sureness(evaluation)[1], kind="stable")[:_DOUBTFUL]}
    rest = np.setdiff1d(rows, np.concatenate(list(chosen.values())))
    rest = np.random.default_rng(seed).permutation(rest)
    chosen["sample"] = rest[classes_in_turn(evaluation.labels[rest], _SAMPLE)]
    return chosen


def sureness(evaluation: Evaluation) -> tuple[str, np.ndarray]:
    """Return the name of a measure of certainty, and its values [N].

    It is the confidence of the localization if that is known. Otherwise it is the probability of
    the image's own class, or 0 if that class is not among the first five.
    """
    if evaluation.confidence is not None:
        return "confidence", evaluation.confidence
    is_label = evaluation.top_classes == evaluation.labels[:, None]  # [N, k]
    return "own class", np.where(is_label, evaluation.top_probabilities, 0).max(axis=1)


def cases(
    evaluation: Evaluation, max_bytes: int, seed: int = 0
) -> dict[str, list[tuple[int, Markup]]]:
    """Return {group: [(row, figure in HTML)]}, as many as fit into `max_bytes` of text.

    The sample comes last, so it is the part that is cut.
    """
    chosen = choose(evaluation, seed)
    rows = np.concatenate(list(chosen.values()))
    groups = [group for group, members in chosen.items() for _ in members]
    template = environment("gc_net.report").get_template("case.html")
    made, used = {group: [] for group in chosen}, 0
    for start in range(0, len(rows), _MASKS_AT_ONCE):
        part = rows[start : start + _MASKS_AT_ONCE]
        masks = np.asarray(evaluation.render_masks(part))
        shapes = outlines(evaluation.shape, evaluation.coefficients[part], num_points=48)
        for row, group, mask, outline in zip(
            part.tolist(), groups[start:], masks, shapes, strict=False
        ):
            try:
                image = evaluation.read_image(row)
            except ImageError:
                continue  # deleted since the evaluation
            figure = template.render(_case(evaluation, row, image, mask, outline))
            used += len(figure)
            if used > max_bytes:
                return made
            made[group].append((row, Markup(figure)))
    return made


def thumbnail(image: np.ndarray, size: int) -> str:
    """Return an image as a data URI, no larger than `size` pixels."""
    image = resize(image, size) if max(image.shape[:2]) > size else image
    data = encode(".webp", image, _QUALITY)
    return "data:image/webp;base64," + base64.b64encode(data).decode()


def _case(evaluation, row, image, mask, outline):
    """Return the values for the template of an example."""
    mean_color = evaluation.mean_color
    difference = (image - mean_color) * mask[..., None]
    label, top = evaluation.labels[row], evaluation.top_classes[row, 0]
    probability = evaluation.top_probabilities[row, 0]
    has_box = bool(np.isfinite(evaluation.iou[row]))
    if has_box:
        right = bool(evaluation.located[row])
        word = "right" if right else "wrong"
        verdict = f"{word} · IoU {evaluation.iou[row]:.2f}"
        described = f"the predicted box is {word}, IoU {evaluation.iou[row]:.2f}"
    else:
        right = bool(top == label)
        name, values = sureness(evaluation)
        described = verdict = f"{name} {values[row]:.0%}"
    boxes = evaluation.truth_boxes_rel_xyxy[row, : evaluation.num_truth_boxes[row]]
    return {
        "label": label,
        "right": right,
        "has_box": has_box,
        "name": evaluation.class_names[label],
        "described": described,
        "verdict": verdict,
        "guess": f"classified right, {probability:.0%}"
        if top == label
        else f"taken for {evaluation.class_names[top]}, {probability:.0%}",
        "file": evaluation.files[row],
        "scene": thumbnail(image, _SCENE_SIZE),
        # I·M and I·(1 − M); masked pixels have the mean colour.
        "object": thumbnail(to_uint8(mean_color + difference), _PART_SIZE),
        "background": thumbnail(to_uint8(image - difference), _PART_SIZE),
        "units": _UNITS,
        "truth_boxes": [_rectangle(box) for box in boxes],
        "outline": _polygon(outline),
        "box": _rectangle(evaluation.boxes_rel_xyxy[row]),
    }


def _polygon(outline_rel):
    if outline_rel is None or not np.isfinite(outline_rel).all():
        return ""
    return " ".join(f"{x},{y}" for x, y in _units(outline_rel))


def _rectangle(box_rel_xyxy):
    """Return x, y, width and height, or None for a box that is not finite."""
    if not np.isfinite(box_rel_xyxy).all():
        return None
    left, top, right, bottom = _units(box_rel_xyxy)
    return left, top, max(right - left, 0), max(bottom - top, 0)


def _units(points_rel):
    # Far outside, numbers would be long for no use.
    return np.rint(np.clip(points_rel, -2, 3) * _UNITS).astype(int).tolist()
