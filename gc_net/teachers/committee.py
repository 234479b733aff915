"""Several teachers at once: their mistakes are not the same, so their mean is better than each.

Descriptors see objects too large and silhouettes see them too small. On birds, the mean of both has
ten points more of CorLoc than either, before anything is trained (docs/results.md).
"""

import dataclasses
from typing import ClassVar

import numpy as np

from gc_net.metrics import box_iou, mask_iou
from gc_net.shapes.base import Shape
from gc_net.teachers import get
from gc_net.teachers.base import Lesson, Targets, Teacher, ask

_DEFAULT = ("descriptors:share=0.3", "silhouettes:size=160:share=0.7")
_MASK_SIZE, _MASKS_AT_ONCE = 64, 256


@dataclasses.dataclass(frozen=True)
class Committee(Teacher):
    """The mean of its members' shapes.

    A target's weight is how far the members agree on it, the mean overlap of any two, times how
    far these trust themselves. Who finds nothing agrees with nobody.

    Attributes:
        members: Teachers; each has its `share`.
    """

    name: ClassVar[str] = "committee"
    members: tuple = _DEFAULT

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "members", tuple(get(member) for member in self.members))

    def check(self, lesson: Lesson) -> None:
        for member in self.members:
            member.check(lesson)

    def placer(self, lesson: Lesson):
        raise TypeError("A committee is asked by `targets`: its members see other images each.")

    def targets(self, lesson: Lesson) -> Targets:
        found = ask(self.members, lesson)
        shares = np.array([member.share for member in self.members])
        return agreed(lesson.shape, found, shares)


def agreed(shape: Shape, found: list[Targets], shares: np.ndarray) -> Targets:
    """Return the mean of several targets for each image, weighed by how far they agree.

    Args:
        found: M `Targets` of N images each.
        shares: [M], how much each counts.
    """
    coefficients = np.stack([targets.coefficients for targets in found])  # [M, N, n]
    there = np.isfinite(coefficients[..., 0])
    trust = np.where(there, np.stack([targets.weights for targets in found]), 0.0)
    shares = np.asarray(shares, float)[:, None]
    mean = averaged(shape, coefficients, shares * there)
    agreement, total = np.zeros(there.shape[1]), 0.0
    for one in range(len(found)):
        for other in range(one):
            share = float(shares[one, 0] * shares[other, 0])
            iou = overlap(shape, coefficients[one], coefficients[other])
            agreement += share * iou * np.sqrt(trust[one] * trust[other])
            total += share
    weights = agreement / total if total else trust[0]
    return Targets(mean, np.where(np.isnan(mean[:, 0]), 0.0, weights).astype(np.float32))


def averaged(shape: Shape, coefficients: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the mean [N, n] of shapes [M, N, n] with shares [M, N]; NaN where all shares are 0.

    Upright ones are averaged edge by edge. Of shapes that rotate, the figure's spread is averaged
    as a matrix, as angles have no mean; by its square root, so that extents, not areas, are.
    """
    total = shares.sum(axis=0)
    shares = np.where(total > 0, shares, np.nan) / np.where(total > 0, total, 1.0)
    known = np.nan_to_num(np.asarray(coefficients, np.float64))
    mean = np.einsum("mn,mnk->nk", shares, known)
    if shape.rotates:
        frame = shape.frame(known)
        half_axes = np.stack([np.asarray(frame.u), np.asarray(frame.v)], axis=-1)
        squares, axes = np.linalg.eigh(half_axes @ np.swapaxes(half_axes, -1, -2))
        extents = 2 * np.sqrt(np.maximum(squares, 0.0))  # [M, N, 2]
        spread = np.einsum("mnik,mnk,mnjk->mnij", axes, extents, axes)
        spread = np.einsum("mn,mnij->nij", shares, spread)
        found = ~np.isnan(mean[:, 0])
        values, axes = np.linalg.eigh(spread[found])
        angle = np.arctan2(axes[:, 1, 1], axes[:, 0, 1])
        # An axis has no direction: into the half turn that coefficients use.
        angle -= np.pi * np.ceil(angle / np.pi - 0.5)
        mean[found, 2:] = np.stack([values[:, 1], values[:, 0], angle], axis=-1)
    return mean.astype(np.float32)


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
