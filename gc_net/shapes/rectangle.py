"""The upright rectangle: `cx, cy, width, height`."""

import numpy as np
from keras import ops

from gc_net.shapes.base import SMALLEST_SHARE, Shape


class Rectangle(Shape):
    """φ = |α + β| + |α − β| − 1, i.e. 2·max(|α|, |β|) − 1 (the paper's appendix)."""

    name = "rectangle"
    outline_kind = "parallelogram"
    reference_ratio_deviation = 0.5
    reference_ratio_flips = False

    def figure_level(self, alpha, beta):
        # The sum of absolute values, not the maximum, because its subgradient on the diagonals is
        # the paper's: the mean of both sides.
        return ops.abs(alpha + beta) + ops.abs(alpha - beta) - 1.0

    def figure_extent(self, u, v):
        return ops.abs(u) + ops.abs(v)

    def figure_outline(self, num_points):
        del num_points  # four corners are enough
        return np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], "float32")

    def iou(self, coefficients_a, coefficients_b):
        if self.rotates:
            return super().iou(coefficients_a, coefficients_b)
        boxes_a, boxes_b = self.boxes(coefficients_a), self.boxes(coefficients_b)
        low = [ops.maximum(boxes_a[..., :2], boxes_b[..., :2]), boxes_a[..., :2], boxes_b[..., :2]]
        high = [ops.minimum(boxes_a[..., 2:], boxes_b[..., 2:]), boxes_a[..., 2:], boxes_b[..., 2:]]
        around = ops.maximum(high[1], high[2]) - ops.minimum(low[1], low[2])
        # In parts of the box around both, which are never tiny.
        both, area_a, area_b = (
            ops.prod(ops.maximum(ends - starts, 0.0) / ops.maximum(around, 1e-6), axis=-1)
            for starts, ends in zip(low, high, strict=True)
        )
        return both / ops.maximum(area_a + area_b - both, SMALLEST_SHARE)
