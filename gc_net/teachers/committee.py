"""Several teachers at once: their mistakes are not the same, so together they are better.

Descriptors see objects too large and silhouettes see them too small. On birds, the mean of both has
ten points more of CorLoc than either, before anything is trained (docs/log/trials.md).
"""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from gc_net.metrics import box_iou, mask_iou
from gc_net.shapes.base import Shape
from gc_net.stages.config import setting
from gc_net.teachers import get
from gc_net.teachers.base import Lesson, Targets, Teacher

# Wide ones and narrow ones in balance; the median of three is that which lies between.
_DEFAULT = (
    "segmenter:cut=wide:centered=true",
    "segmenter:cut=narrow:centered=true",
    "(descriptors:centered=true+segmenter:cut=narrow:centered=true)",
)
_MASK_SIZE, _MASKS_AT_ONCE = 64, 256


@dataclasses.dataclass(frozen=True)
class Committee(Teacher):
    """What its members say together.

    A target's weight is how far the members agree on it, the mean overlap of any two, times how
    far these trust themselves. Who finds nothing agrees with nobody.

    Attributes:
        members: Teachers; each has its `share`.
        average: The mean, or the median, which one member that is far off does not move.
    """

    name: ClassVar[str] = "committee"
    members: tuple = ()
    average: str = setting("mean", ("mean", "median"))

    def __post_init__(self):
        super().__post_init__()
        if not self.members:
            object.__setattr__(self, "members", _DEFAULT)
            object.__setattr__(self, "average", "median")
        object.__setattr__(self, "members", tuple(get(member) for member in self.members))

    def check(self, lesson: Lesson) -> None:
        for member in self.members:
            member.check(lesson)

    def passes(self, num_images: int) -> float:
        # Members share what they can: networks, and passes over images of one size.
        return max(member.passes(num_images) for member in self.members) + num_images

    def placer(self, lesson: Lesson):
        raise TypeError("A committee is asked by `targets`: its members see other images each.")

    def asked(self) -> list[Teacher]:
        return [teacher for member in self.members for teacher in member.asked()]

    def joined(self, lesson: Lesson, found: Iterator[Targets]) -> Targets:
        targets = [member.joined(lesson, found) for member in self.members]
        shares = np.array([member.share for member in self.members])
        joined = agreed(lesson.shape, targets, shares, self.average)
        if not lesson.with_masks:
            return joined
        if self.outlines:
            shares = shares * [member.outlines for member in self.members]
        return joined._replace(masks=mean_masks(targets, shares))

    @property
    def outlines(self) -> bool:
        return any(member.outlines for member in self.members)


def agreed(
    shape: Shape, found: list[Targets], shares: np.ndarray, average: str = "mean"
) -> Targets:
    """Return one target for each image of several, weighed by how far they agree.

    Args:
        found: M `Targets` of N images each.
        shares: [M], how much each counts.
        average: `"mean"` or `"median"`.
    """
    coefficients = np.stack([targets.coefficients for targets in found])  # [M, N, n]
    there = np.isfinite(coefficients[..., 0])
    trust = np.where(there, np.stack([targets.weights for targets in found]), 0.0)
    shares = np.asarray(shares, float)[:, None]
    joined = averaged(shape, coefficients, shares * there, average)
    agreement, total = np.zeros(there.shape[1]), 0.0
    for one in range(len(found)):
        for other in range(one):
            share = float(shares[one, 0] * shares[other, 0])
            iou = overlap(shape, coefficients[one], coefficients[other])
            agreement += share * iou * np.sqrt(trust[one] * trust[other])
            total += share
    weights = agreement / total if total else trust[0]
    return Targets(joined, np.where(np.isnan(joined[:, 0]), 0.0, weights).astype(np.float32))


def mean_masks(found: list[Targets], shares: np.ndarray) -> np.ndarray:
    """Return the mean of the masks of M targets with shares [M]; who finds nothing has no say."""
    there = np.stack([np.isfinite(targets.coefficients[:, 0]) for targets in found])
    shares = np.where(there, np.asarray(shares, np.float32)[:, None], 0.0)  # [M, N]
    shares = shares / np.maximum(shares.sum(axis=0), 1e-9)
    mean = sum(
        share[:, None, None] * targets.masks for share, targets in zip(shares, found, strict=True)
    )
    return np.round(mean).astype(np.uint8)


def averaged(
    shape: Shape, coefficients: np.ndarray, shares: np.ndarray, average: str = "mean"
) -> np.ndarray:
    """Return one shape [N, n] of several [M, N, n] with shares [M, N]; NaN where all are 0.

    Upright shapes are averaged edge by edge. Angles have no mean, so those that rotate are seen as
    the box around their axes' ellipse and the correlation of x and y in it: the edges are averaged
    as if it were upright, and the correlation, which has no seam, by its mean.
    """
    total = shares.sum(axis=0)
    found = total > 0
    shares = shares[:, found] / total[found]
    known = np.nan_to_num(np.asarray(coefficients, np.float64))[:, found]
    center, half, correlation = known[..., :2], known[..., 2:4] / 2, None
    if shape.rotates:
        frame = shape.frame(known)
        axes = np.stack([np.asarray(frame.u), np.asarray(frame.v)], axis=-1)  # [M, F, 2, 2]
        spread = axes @ np.swapaxes(axes, -1, -2)
        half = np.sqrt(np.stack([spread[..., 0, 0], spread[..., 1, 1]], axis=-1))
        correlation = spread[..., 0, 1] / np.maximum(half.prod(axis=-1), 1e-12)
        correlation = (shares * correlation).sum(axis=0)
    edges = np.concatenate([center - half, center + half], axis=-1)  # [M, F, 4]
    join = {"mean": _mean, "median": _median}[average]
    edges = join(edges, np.broadcast_to(shares[..., None], edges.shape))
    joined = np.full(coefficients.shape[1:], np.nan, np.float32)
    extent = edges[:, 2:] - edges[:, :2]
    joined[found, :2] = (edges[:, :2] + edges[:, 2:]) / 2
    joined[found, 2:4] = extent
    if shape.rotates:
        off = correlation * extent.prod(axis=-1)
        squares = np.stack([extent[:, 0] ** 2, off, off, extent[:, 1] ** 2], axis=-1)
        values, axes = np.linalg.eigh(squares.reshape(-1, 2, 2))  # the longer axis last
        values = np.sqrt(np.maximum(values, 0.0))
        angle = np.arctan2(axes[:, 1, 1], axes[:, 0, 1])
        # An axis has no direction: into the half turn that coefficients use.
        angle -= np.pi * np.ceil(angle / np.pi - 0.5)
        joined[found, 2:] = np.stack([values[:, 1], values[:, 0], angle], axis=-1)
    return joined


def _mean(values, shares):
    return (shares * values).sum(axis=0)


def _median(values, shares):
    """Return the values below and above which lies half of the shares; between two, their mean."""
    order = values.argsort(axis=0, kind="stable")
    values = np.take_along_axis(values, order, axis=0)
    reached = np.take_along_axis(shares, order, axis=0).cumsum(axis=0)
    first = (reached < 0.5 - 1e-9).sum(axis=0)
    last = (reached < 0.5 + 1e-9).sum(axis=0)
    rows = [np.take_along_axis(values, place[None], axis=0)[0] for place in (first, last)]
    return (rows[0] + rows[1]) / 2


def overlap(shape: Shape, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the IoU [N] of two shapes [N, n] each, 0 where either is NaN."""
    found = np.flatnonzero(np.isfinite(one[:, 0]) & np.isfinite(other[:, 0]))
    iou = np.zeros(len(one))
    if not shape.rotates:
        iou[found] = box_iou(shape.boxes(one[found]), shape.boxes(other[found]))
        return iou
    for start in range(0, len(found), _MASKS_AT_ONCE):
        rows = found[start : start + _MASKS_AT_ONCE]
        masks = [
            np.asarray(shape.masks(each[rows], _MASK_SIZE, _MASK_SIZE))[..., 0] > 0
            for each in (one, other)
        ]
        iou[rows] = mask_iou(*masks)
    return iou
