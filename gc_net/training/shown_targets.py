"""The target of a view: the target of its image, moved to where the view shows it."""

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from gc_net import shapes
from gc_net.shapes.base import Shape

if TYPE_CHECKING:
    from gc_net.teachers.base import Targets

# If a window shows no more of an object's side than this, it teaches nothing.
_SMALLEST = 0.05


class ShownTargets:
    """The targets of R views of N images.

    Args:
        targets: A teacher's targets of the images.
        windows: [R, 5], the window of each view, see `transforms.random_windows`.
        resize_size: Side of the squashed images.
        images: [R], the image of each view; None if there is one view of each.
        mask_size: Side of masks, for a head that learns edges and a mask from `Targets` of boxes;
            None for a head that learns shapes.
    """

    def __init__(
        self,
        targets: "Targets",
        windows: np.ndarray,
        resize_size: int,
        images: np.ndarray | None = None,
        mask_size: int | None = None,
    ):
        windows = np.asarray(windows, np.float32)
        images = np.arange(len(windows)) if images is None else np.asarray(images)
        placed = Shape.in_windows(targets.coefficients[images], windows, resize_size)
        weights = np.asarray(targets.weights, np.float32)[images]
        self._mask_size = mask_size
        if mask_size is not None:
            boxes = np.asarray(shapes.get("rectangle").boxes(placed))
            placed = np.clip(boxes, 0.0, 1.0)
            seen = (placed[:, 2:] - placed[:, :2] > _SMALLEST).all(axis=1)
            weights = np.where(seen, weights, 0.0)
            self._images = tf.constant(images)
            self._masks = tf.constant(targets.masks)
            self._windows = tf.constant(windows / resize_size)
        self._placed = tf.constant(placed, tf.float32)
        self._weights = tf.constant(weights, tf.float32)

    def __call__(self, views):
        """Return the targets of views [B], and the weight of each; may run inside a graph.

        Targets are coefficients [B, n], or a dict of edges [B, 4] and mask [B, S, S].
        """
        shown, weights = tf.gather(self._placed, views), tf.gather(self._weights, views)
        if self._mask_size is None:
            return shown, weights
        masks = tf.gather(self._masks, tf.gather(self._images, views))
        masks = masks_in_windows(masks, tf.gather(self._windows, views), self._mask_size)
        return {"edges": shown, "mask": masks}, weights


def masks_in_windows(masks: tf.Tensor, windows: tf.Tensor, size: int) -> tf.Tensor:
    """Return the parts of masks in windows, float32 [B, size, size] in 0–1.

    Args:
        masks: uint8 [B, H, W] of whole images.
        windows: [B, 5] rows of (top, left, flip, height, width), relative to the image; flip is not
            0 if the window is mirrored.
    """
    masks = tf.cast(masks, tf.float32)[..., None] / 255
    # Cells at the border have centres within the image; beyond them, their values are repeated.
    masks = tf.pad(masks, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="SYMMETRIC")
    flip = windows[:, 2] != 0
    windows = tf.cast(windows, tf.float32)

    def first_and_last(start, extent, cells):
        """Return the centres of the first and the last cell, as `crop_and_resize` counts."""
        ends = [start + extent * part for part in (0.5 / size, 1 - 0.5 / size)]
        return [(end * cells + 0.5) / (cells + 1) for end in ends]

    height, width = masks.shape[1] - 2, masks.shape[2] - 2
    top, bottom = first_and_last(windows[:, 0], windows[:, 3], height)
    left, right = first_and_last(windows[:, 1], windows[:, 4], width)
    left, right = tf.where(flip, right, left), tf.where(flip, left, right)
    boxes = tf.stack([top, left, bottom, right], axis=-1)
    return tf.image.crop_and_resize(masks, boxes, tf.range(tf.shape(boxes)[0]), [size, size])[
        ..., 0
    ]
