"""The rotated ellipse: `cx, cy, width, height, angle`; width and height are full axes."""

import numpy as np
from keras import ops

from gc_net.shapes.base import Shape


class RotatedEllipse(Shape):
    """φ = (2α)² + (2β)² − 1: the paper's, whose a and b are half of width and height."""

    name = "rotated_ellipse"
    rotates = True
    outline_kind = "ellipse"
    figure_variance = 1 / 16

    def figure_level(self, alpha, beta):
        return 4.0 * (ops.square(alpha) + ops.square(beta)) - 1.0

    def figure_extent(self, u, v):
        # An ellipse's extent along an axis is the norm of its half axes' components. The lower
        # bound keeps the root's gradient finite for a shape without extent.
        return ops.sqrt(ops.maximum(ops.square(u) + ops.square(v), 1e-14))

    def figure_outline(self, num_points):
        angle = np.arange(num_points) * (2 * np.pi / num_points)
        return np.stack([np.cos(angle), np.sin(angle)], axis=-1).astype("float32")
