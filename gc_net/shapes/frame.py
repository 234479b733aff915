"""A shape's place in the plane: a centre and two half axes.

Every shape is the image of a unit figure (a square or a disc) under an affine map, and a frame is
that map. When a squashed image is stretched back to its own width and height, the frame is
stretched too. So boxes, polygons and ellipses in original pixels are exact, not fitted again.
"""

import math
from typing import Any, NamedTuple

from keras import ops


class Frame(NamedTuple):
    """Centre and half axes of a shape: the figure's (s, t) lies at `center + s·u + t·v`.

    Attributes:
        center, u, v: [..., 2] arrays of (x, y).
    """

    center: Any
    u: Any
    v: Any

    def scaled(self, width: Any, height: Any) -> "Frame":
        """Stretch x by `width` and y by `height`, e.g. from relative coordinates to pixels.

        `width` and `height` are scalars, or arrays with one entry per shape.
        """
        scale = ops.stack(
            [ops.cast(width, self.center.dtype), ops.cast(height, self.center.dtype)], axis=-1
        )
        return Frame(self.center * scale, self.u * scale, self.v * scale)


def principal_axes(frame: Frame) -> tuple[Any, Any, Any]:
    """Return the full axes and the angle of the ellipse spanned by a frame's half axes.

    Stretching makes the half axes of an ellipse conjugate, no longer perpendicular. The true axes
    are the singular values of the 2×2 matrix [u v], in closed form.

    Returns:
        Tuple of the longer and the shorter full axis and the angle of the longer one in
        (−π/2, π/2], clockwise on screen; each of the frame's batch shape.
    """
    ux, uy = frame.u[..., 0], frame.u[..., 1]
    vx, vy = frame.v[..., 0], frame.v[..., 1]
    mean, skew = (ux + vy) / 2, (uy - vx) / 2
    stretch, shear = (ux - vy) / 2, (uy + vx) / 2
    even, odd = ops.hypot(mean, skew), ops.hypot(stretch, shear)
    angle = (ops.arctan2(skew, mean) + ops.arctan2(shear, stretch)) / 2
    # An axis has no direction, so the angle is brought into the half turn of coefficients.
    angle = angle - math.pi * ops.ceil(angle / math.pi - 0.5)
    return 2 * (even + odd), 2 * ops.abs(even - odd), angle
