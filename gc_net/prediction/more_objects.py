"""Several objects in an image: a shape around two is split, and what is left is searched again."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import cv2
import numpy as np

from gc_net.figures.drawing import denormalizer
from gc_net.metrics import box_iou
from gc_net.prediction.prediction import Prediction

# Two shapes that share more than this are of one object.
_SAME_OBJECT = 0.5
# How much of a box's extent along the cut each of two parts shows, and how much around the box.
# The parts share a third, where an object that is cut in two is seen from both sides.
_SHOWN, _AROUND = 0.65, 0.06
_NUM_PARTS = 4

Outputs = Mapping[str, Any]


def find_objects(
    localizer: Any,
    images: Any,
    look: Callable[[np.ndarray], Outputs],
    conclude: Callable[[Outputs, np.ndarray], list[Prediction]],
    max_objects: int,
) -> list[Prediction]:
    """Return the `Prediction` of each image, with further objects as its `others`.

    Training shows one shape an image, so a detector draws one shape around two objects that are
    close to each other. `split` finds these. What was found then takes the mean colour, as in
    training, and the rest of the image is searched. As long as the classifier still names the same
    class, there must be more of that class, and the detector places another shape. If that shape
    is an earlier one again, it was a rest of that object, and the search ends. All of this needs no
    box and no threshold on probabilities.

    Args:
        localizer: A `Localizer`.
        images: uint8 [B, R, R, 3], squashed.
        look: Function of such images to the outputs of `first_look`, with a confidence.
        conclude: Function of outputs [b], relative to the images, and of the rows [b] of these to
            their predictions.
        max_objects: Most objects of an image.
    """
    hidden = np.array(images)
    rows = np.arange(len(hidden))
    found = [[prediction] for prediction in conclude(look(hidden), rows)]
    groups = [(row, shapes[0]) for row, shapes in enumerate(found)]
    while groups:
        pairs = split(localizer, hidden, groups, look, conclude)
        whole, groups = groups, []
        for (row, group), pair in zip(whole, pairs, strict=True):
            if pair and len(found[row]) < max_objects:
                pair.sort(key=_area, reverse=True)
                found[row] = [each for each in found[row] if each is not group] + pair
                groups += [(row, each) for each in pair]
        groups = [(row, each) for row, each in groups if len(found[row]) < max_objects]
    color = denormalizer(localizer.classifier.normalize)(np.zeros(3))
    rows = np.array([row for row in rows if len(found[row]) < max_objects], int)
    to_hide = {row: found[row] for row in rows}
    while len(rows):
        for row in rows:
            shapes = np.float32([each.coefficients for each in to_hide[row]])
            masks = np.asarray(localizer.shape.masks(shapes, *hidden.shape[1:3]))
            hidden[row][(masks[..., 0] > 0).any(axis=0)] = color
        outputs = look(hidden[rows])
        classes = np.asarray(outputs["class_probabilities"]).argmax(axis=1)
        unfinished = []
        for row, left, prediction in zip(rows, classes, conclude(outputs, rows), strict=True):
            if left == found[row][0].class_id and not _is_among(prediction, found[row]):
                found[row].append(prediction)
                to_hide[row] = [prediction]
                if len(found[row]) < max_objects:
                    unfinished.append(row)
        rows = np.array(unfinished, int)
    return [dataclasses.replace(first, others=tuple(others)) for first, *others in found]


def split(
    localizer: Any,
    images: np.ndarray,
    groups: list[tuple[int, Prediction]],
    look: Callable[[np.ndarray], Outputs],
    conclude: Callable[[Outputs, np.ndarray], list[Prediction]],
) -> list[list[Prediction]]:
    """Return, for each shape, the two shapes of the objects that it is around, or nothing.

    The left and the right part of its box are looked at by themselves, and so are the upper and the
    lower one. The parts share a third of the box. A single object reaches across that from both
    sides, so the shapes in both parts overlap. If those along an axis do not overlap at all, and
    neither has a confidence of zero, there are two objects. If that holds for both axes, the
    shapes of the higher confidence are taken.

    Args:
        localizer, look, conclude: As for `find_objects`.
        images: uint8 [B, R, R, 3].
        groups: The row of an image, and a shape in it.
    """
    shape, count = localizer.shape, len(images)
    boxes = np.asarray(shape.boxes(np.float32([group.coefficients for _, group in groups])))
    windows = parts(boxes, localizer.resize_size / localizer.image_size).reshape(-1, 4)
    rows = np.repeat([row for row, _ in groups], _NUM_PARTS)
    cuts = np.stack([cut(images[row], part) for row, part in zip(rows, windows, strict=True)])
    # As many images at once as for the first look.
    looks = [look(cuts[start : start + count]) for start in range(0, len(cuts), count)]
    outputs = {
        name: np.concatenate([np.asarray(each[name]) for each in looks]) for name in looks[0]
    }
    outputs["coefficients"] = whole_image(shape, outputs["coefficients"], windows)
    outputs["boxes"] = np.asarray(shape.boxes(outputs["coefficients"]))
    chosen = np.array([_apart(outputs, place) for place in range(0, len(cuts), _NUM_PARTS)])
    kept = np.flatnonzero(chosen[:, 0] >= 0)
    pairs = [[] for _ in groups]
    if len(kept):
        places = chosen[kept].reshape(-1)
        taken = {name: values[places] for name, values in outputs.items()}
        predictions = conclude(taken, rows[places])
        for number, group in enumerate(kept):
            pairs[group] = predictions[2 * number : 2 * number + 2]
    return pairs


def parts(boxes_rel_xyxy: np.ndarray, reach: float) -> np.ndarray:
    """Return windows [B, 4, 4], xyxy, at the left, right, top and bottom part of boxes [B, 4].

    Args:
        reach: Side of what is squashed, as a multiple of the window in it that the networks see.
    """
    low, high = boxes_rel_xyxy[:, None, :2], boxes_rel_xyxy[:, None, 2:]
    extents = high - low
    # Of left, right, top and bottom part: what is left out before and behind it.
    out, around = 1 - _SHOWN, -_AROUND
    before = np.array([[around, around], [out, around], [around, around], [around, out]])
    behind = np.array([[out, around], [around, around], [around, out], [around, around]])
    low, high = low + extents * before, high - extents * behind
    center, half = (low + high) / 2, (high - low) / 2 * reach
    return np.concatenate([center - half, center + half], axis=-1)


def cut(image: np.ndarray, window_rel_xyxy: np.ndarray) -> np.ndarray:
    """Return what a window shows of an image [R, R, 3], at its size; its border is repeated."""
    side = len(image)
    start, extent = window_rel_xyxy[:2], window_rel_xyxy[2:] - window_rel_xyxy[:2]
    shift = side * start + (extent - 1) / 2  # between centres of pixels
    inverse = np.array([[extent[0], 0, shift[0]], [0, extent[1], shift[1]]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return cv2.warpAffine(
        image, inverse, (side, side), flags=flags, borderMode=cv2.BORDER_REPLICATE
    )


def whole_image(shape: Any, coefficients: np.ndarray, windows_rel_xyxy: np.ndarray) -> np.ndarray:
    """Return a shape's coefficients [B, n] in windows [B, 4], relative to the whole images."""
    start, extent = windows_rel_xyxy[:, :2], windows_rel_xyxy[:, 2:] - windows_rel_xyxy[:, :2]
    # The whole image, as a window of what the window shows: top, left, no flip, height, width.
    left, top = (-start / extent).T
    width, height = (1 / extent).T
    whole = np.stack([top, left, np.zeros_like(top), height, width], axis=-1)
    return shape.in_windows(coefficients, whole, 1)


def _apart(outputs, place):
    """Return the places of two shapes that do not overlap, of four from `place`; -1 for none."""
    best, surest = (-1, -1), 0.0
    for pair in ((place, place + 1), (place + 2, place + 3)):
        one, other = (outputs["boxes"][each] for each in pair)
        sure = outputs["confidence"][list(pair)].min()
        if box_iou(one, other) == 0 and sure > surest:
            best, surest = pair, sure
    return best


def _area(prediction):
    left, top, right, bottom = prediction.box_xyxy
    return (right - left) * (bottom - top)


def _is_among(prediction, earlier):
    boxes = np.array([other.box_xyxy for other in earlier])
    return bool((box_iou(np.array(prediction.box_xyxy), boxes) > _SAME_OBJECT).any())
