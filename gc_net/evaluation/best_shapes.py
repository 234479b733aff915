"""The best that a shape can reach: a box around a slanted bird never fits its outline.

Compared with it, the mask IoU of a detector shows the detector's own share of the error.
"""

import numpy as np

from gc_net.metrics import mask_iou
from gc_net.shapes.base import Shape

# Steps of the search, in parts of the image; angles take them in units of π.
_FIRST_STEP, _LAST_STEP = 0.04, 0.004


def best_mask_iou(shape: Shape, masks: np.ndarray) -> np.ndarray:
    """Return the largest IoU [N] that a shape can have with each of the masks, bool [N, H, W].

    The search starts from the shape that describes the mask, see `Shape.fit`, and changes one
    coefficient at a time, in smaller and smaller steps. It ends in a maximum that may not be the
    global one. So the returned value can be reached, and the true best is hardly larger.
    """
    height, width = masks.shape[1:]
    found = np.zeros(len(masks))
    rows = np.flatnonzero(masks.any(axis=(1, 2)))
    if not len(rows):
        return found
    masks = masks[rows]
    coefficients = np.stack([shape.fit(mask) for mask in masks])

    def overlap(candidates):
        drawn = np.asarray(shape.masks(candidates, height, width))[..., 0] > 0
        return mask_iou(drawn, masks)

    best = overlap(coefficients)
    units = np.ones(shape.num_coefficients, np.float32)
    units[4:] = np.pi
    step = _FIRST_STEP
    while step >= _LAST_STEP:
        before = best.copy()
        for change in (*np.diag(step * units), *np.diag(-step * units)):
            candidates = coefficients + change.astype(np.float32)
            candidates[:, 2:4] = np.maximum(candidates[:, 2:4], 1e-3)
            reached = overlap(candidates)
            better = reached > best
            coefficients[better], best[better] = candidates[better], reached[better]
        if (best - before).max() < 1e-3:
            step /= 2
    found[rows] = best
    return found
