"""Metrics of boxes, masks, angles and classes: pure NumPy, one value per image.

All functions take arrays over images. So means, bootstrap intervals and the report's break-downs
start from the same values per image. Boxes are xyxy in any units; IoU does not change when x or y
is stretched.
"""

import numpy as np

# MaxBoxAccV2 averages the accuracy at these (Choe et al., CVPR 2020).
IOU_THRESHOLDS = (0.3, 0.5, 0.7)

# Resamples are drawn in parts of about this many numbers, to bound the memory for large splits.
_BOOTSTRAP_NUMBERS = 4_000_000


def box_iou(boxes_a_xyxy: np.ndarray, boxes_b_xyxy: np.ndarray, pixel: float = 0.0) -> np.ndarray:
    """Return the intersection over union of boxes, pair by pair.

    Args:
        boxes_a_xyxy, boxes_b_xyxy: [..., 4], broadcast against each other. A box whose right edge
            is left of its left edge has no area and no overlap.
        pixel: Added to every width and height; 1 if corners are the first and the last pixel of a
            box, as in older evaluation code.

    Returns:
        [...] float64 from 0 to 1; 0 for two boxes without area.
    """
    a = np.asarray(boxes_a_xyxy, np.float64)
    b = np.asarray(boxes_b_xyxy, np.float64)
    overlap = _extent(np.maximum(a[..., :2], b[..., :2]), np.minimum(a[..., 2:], b[..., 2:]), pixel)
    overlap, area_a, area_b = (
        extent[..., 0] * extent[..., 1]
        for extent in (
            overlap,
            _extent(a[..., :2], a[..., 2:], pixel),
            _extent(b[..., :2], b[..., 2:], pixel),
        )
    )
    union = area_a + area_b - overlap
    return np.divide(overlap, union, out=np.zeros(np.shape(union)), where=union > 0)


def _extent(low, high, pixel):
    return np.maximum(high - low + pixel, 0.0)


def best_iou(
    boxes_xyxy: np.ndarray, truth_xyxy: np.ndarray, num_truth: np.ndarray, pixel: float = 0.0
) -> np.ndarray:
    """Return each image's IoU with the best of its true boxes.

    Args:
        boxes_xyxy: [N, ..., 4]; one box an image, or several candidates each.
        truth_xyxy: [N, K, 4], padded.
        num_truth: [N], how many of the K are boxes.

    Returns:
        [N, ...] float64; NaN for images without a true box.
    """
    boxes = np.asarray(boxes_xyxy, np.float64)
    truth = np.asarray(truth_xyxy, np.float64)
    num_truth = np.asarray(num_truth)
    best = np.full(boxes.shape[:-1], np.nan)
    candidates = (1,) * (boxes.ndim - 2)
    # One of the K at a time, because with many candidates the product would not fit into memory.
    for place in range(truth.shape[1]):
        box = truth[:, place].reshape(-1, *candidates, 4)  # [N, 1…, 4]
        iou = box_iou(boxes, box, pixel)
        is_box = (place < num_truth).reshape(-1, *candidates)
        best = np.fmax(best, np.where(is_box, iou, np.nan))
    return best


def in_top(top_classes: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Return whether the label is among the first `k` classes: [N, ≥k] and [N] to bool [N]."""
    return (np.asarray(top_classes)[:, :k] == np.asarray(labels)[:, None]).any(axis=1)


def top_k(scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best classes and their scores, best first; ties go to the lower class.

    Args:
        scores: [N, C].

    Returns:
        Tuple of int32 [N, min(k, C)] and the scores there.
    """
    scores = np.asarray(scores)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k].astype(np.int32)
    return order, np.take_along_axis(scores, order, axis=1)


def mask_iou(masks_a: np.ndarray, masks_b: np.ndarray) -> np.ndarray:
    """Return the IoU of boolean masks [..., H, W]; 1 where both are empty."""
    a, b = np.asarray(masks_a, bool), np.asarray(masks_b, bool)
    overlap = np.count_nonzero(a & b, axis=(-2, -1))
    union = np.count_nonzero(a | b, axis=(-2, -1))
    return np.divide(overlap, union, out=np.ones(np.shape(union)), where=union > 0)


def angle_error(angle_a: np.ndarray | float, angle_b: np.ndarray | float) -> np.ndarray:
    """Return the angle between two axes in radians, from 0 to π/2; an axis has no direction."""
    difference = np.mod(np.asarray(angle_a, np.float64) - np.asarray(angle_b, np.float64), np.pi)
    return np.minimum(difference, np.pi - difference)


def auroc(scores: np.ndarray, right: np.ndarray) -> float:
    """Return the probability that a right item scores higher than a wrong one; ties count half.

    Args:
        scores: [N].
        right: [N] bool.

    Returns:
        Float, the area under the ROC curve; NaN where all are right or all wrong.
    """
    right = np.asarray(right, bool)
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]  # from 1; the mean of those that tie
    num_right = np.count_nonzero(right)
    pairs = num_right * (len(right) - num_right)
    if not pairs:
        return float("nan")
    return float((ranks[right].sum() - num_right * (num_right + 1) / 2) / pairs)


def bootstrap_interval(
    values: np.ndarray, num_resamples: int = 1000, seed: int = 0, confidence: float = 0.95
) -> np.ndarray:
    """Return the percentile bootstrap interval of the mean, by resampling images.

    Args:
        values: [N] or [N, M]; NaN where an image has no such value. All M columns are resampled
            together.
        num_resamples: How often the N images are drawn again, with replacement.
        seed: The same seed gives the same interval.

    Returns:
        [2] or [M, 2] float64, low and high; NaN if there are no values.
    """
    values = np.asarray(values, np.float64)
    count = len(values)
    if count == 0:
        return np.full((*values.shape[1:], 2), np.nan)
    columns = values.reshape(count, -1)  # [N, M]
    known = np.isfinite(columns)
    filled = np.where(known, columns, 0.0)
    rng = np.random.default_rng(seed)
    means = []
    part = max(1, _BOOTSTRAP_NUMBERS // count)
    for start in range(0, num_resamples, part):
        draws = min(part, num_resamples - start)
        chosen = rng.integers(count, size=(draws, count))
        chosen += np.arange(draws)[:, None] * count  # one run of bins for each draw
        times = np.bincount(chosen.ravel(), minlength=draws * count).reshape(draws, count)
        with np.errstate(invalid="ignore"):
            means.append((times @ filled) / (times @ known))  # [draws, M]
    tail = (1 - confidence) / 2
    with np.errstate(invalid="ignore"):
        limits = np.nanquantile(np.concatenate(means), [tail, 1 - tail], axis=0).T  # [M, 2]
    return limits.reshape(*values.shape[1:], 2)
