"""From values per image to the numbers of a table, each with its 95 % interval."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gc_net import metrics

# Decimals of written numbers: a hundredth of a percent is half an image of CUB.
_DECIMALS = 4


def method_metrics(
    labels: np.ndarray,
    top_classes: np.ndarray,
    num_classes: int,
    iou: np.ndarray,
    hits: np.ndarray,
    located: np.ndarray,
    more: Mapping[str, np.ndarray] | None = None,
) -> dict[str, Any]:
    """Return the metrics of one method, with intervals.

    Args:
        labels: [N].
        top_classes: [N, k], for LocErr.
        num_classes: Of the dataset. Of five or fewer, any class is among the first five: top-5
            errors mean nothing then and are left out.
        iou: [N], NaN where an image has no box.
        hits: bool [L, N] at the IoU levels of MaxBoxAccV2.
        located: bool [N] at IoU 0.5.
        more: Dict of further values [N], already in the units to print.

    Returns:
        Dict of name to a number, percentages from 0 to 100; `<name>_ci95` is the pair of limits.
    """
    known = np.isfinite(iou)

    def where_known(values):
        return np.where(known, values, np.nan)

    values = {
        **{
            f"loc_err_top{k}": where_known(_wrong(metrics.in_top(top_classes, labels, k) & located))
            for k in _counted(num_classes)
        },
        "corloc": where_known(100.0 * located),
        "corloc_70": where_known(100.0 * (iou > 0.7)),
        "mean_iou": 100.0 * iou,
        "max_box_acc_v2": where_known(100.0 * hits.mean(axis=0)),
        **(more or {}),
    }
    return summarized(values)


def class_errors(
    labels: np.ndarray, top_classes: np.ndarray, num_classes: int
) -> dict[str, np.ndarray]:
    """Return the values [N] of ClsErr top-1 and top-5, for `summarized`; see `method_metrics`."""
    return {
        f"cls_err_top{k}": _wrong(metrics.in_top(top_classes, labels, k))
        for k in _counted(num_classes)
    }


def _counted(num_classes):
    """Return how many of the first classes count, for each error that has a meaning."""
    return (1, 5) if num_classes > 5 else (1,)


def summarized(values: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the mean and the interval of each of a dict of values [N]; NaN is left out."""
    names = list(values)
    columns = np.stack([np.asarray(values[name], np.float64) for name in names], axis=1)  # [N, M]
    intervals = metrics.bootstrap_interval(columns)
    result = {}
    for name, column, interval in zip(names, columns.T, intervals, strict=True):
        result[name] = round(float(np.nanmean(column)), _DECIMALS)
        result[f"{name}_ci95"] = [round(float(limit), _DECIMALS) for limit in interval]
    return result


def _wrong(right):
    return 100.0 * ~right
