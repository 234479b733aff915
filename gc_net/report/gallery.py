"""Examples for the report: which images, their thumbnails, and what is drawn over them."""

import base64

import cv2
import numpy as np

from gc_net.data.splits import ImageError
from gc_net.figures.contact_sheet import classes_in_turn
from gc_net.figures.drawing import resize, to_uint8
from gc_net.figures.grids import outlines
from gc_net.report.charts import text

# Key in the page: heading, explanation.
GROUPS = {
    "best": ("Best", "the highest IoU"),
    "median": ("Median", "around the median IoU"),
    "worst": ("Worst", "the lowest IoU"),
    "sample": ("Sample", "drawn at random, the classes in turn"),
}
_EACH = 6  # best, median and worst cases
_SAMPLE = 240  # one at least of every class of CUB
_SCENE_SIZE, _PART_SIZE = 224, 136  # pixels of the image, and of its object and background
_QUALITY = 72
_MASKS_AT_ONCE = 32
_UNITS = 1000  # the drawing over an image spans this much


def choose(evaluation, seed=0):
    """Return {group: rows}; a row is in one group at most, and only images with boxes are."""
    rows = np.flatnonzero(np.isfinite(evaluation.iou))
    order = rows[np.argsort(-evaluation.iou[rows], kind="stable")]
    each = min(_EACH, len(order) // 3)
    middle = (len(order) - each) // 2
    chosen = {
        "best": order[:each],
        "median": order[middle : middle + each],
        "worst": order[len(order) - each :][::-1],
    }
    rest = np.setdiff1d(rows, np.concatenate(list(chosen.values())))
    rest = np.random.default_rng(seed).permutation(rest)
    chosen["sample"] = rest[classes_in_turn(evaluation.labels[rest], _SAMPLE)]
    return chosen


def cases(evaluation, max_bytes, seed=0):
    """Return {group: [(row, figure in HTML)]}, as many as fit into `max_bytes` of text.

    The sample comes last, so that it is the part that is cut short.
    """
    chosen = choose(evaluation, seed)
    rows = np.concatenate(list(chosen.values()))
    groups = [group for group, members in chosen.items() for _ in members]
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
                continue  # gone since it was evaluated
            figure = _figure(evaluation, row, image, mask, outline)
            used += len(figure)
            if used > max_bytes:
                return made
            made[group].append((row, figure))
    return made


def thumbnail(image, size):
    """Return an image as a data URI, no larger than `size` pixels."""
    image = resize(image, size) if max(image.shape[:2]) > size else image
    _, data = cv2.imencode(".webp", image[..., ::-1], [cv2.IMWRITE_WEBP_QUALITY, _QUALITY])
    return "data:image/webp;base64," + base64.b64encode(data).decode()


def _figure(evaluation, row, image, mask, outline):
    mean_color = evaluation.mean_color
    difference = (image - mean_color) * mask[..., None]
    # I·M and I·(1 − M), where a masked pixel takes the mean colour.
    object_image, background = to_uint8(mean_color + difference), to_uint8(image - difference)
    label, iou = evaluation.labels[row], evaluation.iou[row]
    right = bool(evaluation.located[row])
    name = evaluation.class_names[label]
    verdict = "right" if right else "wrong"
    top, probability = evaluation.top_classes[row, 0], evaluation.top_probabilities[row, 0]
    guess = (
        f"classified right, {probability:.0%}"
        if top == label
        else f"taken for {evaluation.class_names[top]}, {probability:.0%}"
    )
    boxes = evaluation.truth_boxes_rel_xyxy[row, : evaluation.num_truth_boxes[row]]
    return (
        f'<figure class="case" data-class="{label}" data-result="{verdict}">'
        f'<div class="pictures"><div class="scene">'
        + _image(image, _SCENE_SIZE, f"{name}; the predicted box is {verdict}, IoU {iou:.2f}")
        + _overlay(outline, evaluation.boxes_rel_xyxy[row], boxes)
        + "</div>"
        + _image(object_image, _PART_SIZE, "object: the background masked")
        + _image(background, _PART_SIZE, "background: the object masked")
        + f'</div><figcaption><span class="name">{text(name)}</span>'
        f'<span class="verdict {verdict}">{verdict} · IoU {iou:.2f}</span>'
        f'<span class="guess">{text(guess)}</span>'
        f'<span class="file">{text(evaluation.files[row])}</span></figcaption></figure>'
    )


def _image(image, size, description):
    return f'<img src="{thumbnail(image, size)}" alt="{text(description)}" decoding="async">'


def _overlay(outline_rel, box_rel_xyxy, truth_boxes_rel_xyxy):
    """Draw true boxes, the shape and its box, in that order, as in `drawing.draw_prediction`."""
    shapes = [_rectangle("truth", box) for box in truth_boxes_rel_xyxy]
    if outline_rel is not None and np.isfinite(outline_rel).all():
        points = " ".join(f"{x},{y}" for x, y in _units(outline_rel))
        shapes += [f'<polygon class="{part}" points="{points}"/>' for part in ("rim", "shape")]
    shapes.append(_rectangle("box", box_rel_xyxy))
    return f'<svg viewBox="0 0 {_UNITS} {_UNITS}" aria-hidden="true">{"".join(shapes)}</svg>'


def _rectangle(style, box_rel_xyxy):
    if not np.isfinite(box_rel_xyxy).all():
        return ""
    left, top, right, bottom = _units(box_rel_xyxy)
    size = f'width="{max(right - left, 0)}" height="{max(bottom - top, 0)}"'
    return f'<rect class="{style}" x="{left}" y="{top}" {size}/>'


def _units(points_rel):
    # Far outside, numbers would only be long.
    return np.rint(np.clip(points_rel, -2, 3) * _UNITS).astype(int).tolist()
