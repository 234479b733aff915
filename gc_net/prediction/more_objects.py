"""Several objects in an image: found objects are hidden, and the rest is searched again."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from gc_net.figures.drawing import denormalizer
from gc_net.metrics import box_iou
from gc_net.prediction.prediction import Prediction

# Two shapes that share more than this are of one object.
_SAME_OBJECT = 0.5


def find_objects(
    localizer: Any,
    images: Any,
    look: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, list[Prediction]]],
    max_objects: int,
) -> list[Prediction]:
    """Return the `Prediction` of each image, with further objects as its `others`.

    Found shapes take the mean colour, as in training. As long as the classifier still names the
    same class, there must be more of that class, and the detector places another shape. If that
    shape is an earlier one again, it was a rest of that object, and the search ends. This needs no
    box and no threshold on probabilities.

    Args:
        localizer: A `Localizer`.
        images: uint8 [B, R, R, 3], squashed.
        look: Function of some of the images, with earlier objects hidden, and of their rows [b]. It
            returns their class probabilities [b, C] and their predictions.
        max_objects: Most objects of an image.
    """
    hidden = np.array(images)
    rows = np.arange(len(hidden))
    _, predictions = look(hidden, rows)
    found = [[prediction] for prediction in predictions]
    color = denormalizer(localizer.classifier.normalize)(np.zeros(3))
    for _ in range(max_objects - 1):
        for row in rows:
            coefficients = np.float32([found[row][-1].coefficients])
            mask = localizer.shape.masks(coefficients, *hidden.shape[1:3])
            hidden[row][np.asarray(mask)[0, ..., 0] > 0] = color
        probabilities, predictions = look(hidden[rows], rows)
        unfinished = []
        for row, left, prediction in zip(rows, probabilities, predictions, strict=True):
            if left.argmax() == found[row][0].class_id and not _is_among(prediction, found[row]):
                found[row].append(prediction)
                unfinished.append(row)
        rows = np.array(unfinished, int)
        if not len(rows):
            break
    return [dataclasses.replace(first, others=tuple(others)) for first, *others in found]


def _is_among(prediction, earlier):
    boxes = np.array([other.box_xyxy for other in earlier])
    return bool((box_iou(np.array(prediction.box_xyxy), boxes) > _SAME_OBJECT).any())
