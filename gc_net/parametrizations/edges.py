"""A parametrization by edges, for the head that finds them, see `gc_net.heads.edges`.

Raw outputs are left, top, right and bottom of the object's upright box, relative to the image. For
shapes that rotate, there is also the correlation ρ of x and y over the object.

- An upright shape is the box itself.
- Of the ellipses that touch all four edges of the box, one has the correlation ρ. With the box's
  half extents w and h, the squares of its half axes are the matrix ((w², ρwh), (ρwh, h²)). Its
  longer axis has the angle θ = ½·atan2(2ρwh, w² − h²), which has no seam.
- Any other shape that rotates has the axes of that ellipse, times the factor that gives its own
  upright box the area of the box. (At a given angle, a rectangle touches all four edges only for
  one proportion of the box.)

Last come the mean absolute deviations of the four edges, in the same order: how far the head itself
takes each to be off.
"""

from keras import ops

from gc_net.parametrizations.base import Parametrization
from gc_net.parametrizations.seamless import ROUND, SQUARE, half_direction
from gc_net.shapes.base import MIN_EXTENT, Shape
from gc_net.shapes.frame import Frame

# Beyond this, the shorter axis of an ellipse is below 1.5 % of the longer one.
_LARGEST_CORRELATION = 1 - 1e-4
# The head's edges lie in 0–1. Other values must only not overflow.
_FARTHEST = 10.0
NUM_EDGES = 4


class Edges(Parametrization):
    """Edges of the upright box, the correlation of x and y, and deviations of the edges.

    The two ends of an axis may be in either order.
    """

    name = "edges"
    head = "edges"
    has_deviations = True

    def num_outputs(self, shape):
        return shape.num_coefficients + NUM_EDGES

    def decode(self, raw, shape):
        raw = ops.cast(raw, "float32")
        edges = ops.clip(raw[..., :4], -_FARTHEST, _FARTHEST)
        # An untrained head may swap the two ends of an axis.
        center, extents = (edges[..., :2] + edges[..., 2:]) / 2, _extents(edges)
        if not shape.rotates:
            return ops.concatenate([center, extents], axis=-1)
        half = ops.maximum(extents, MIN_EXTENT) / 2
        longer, shorter, angle = _axes(half, raw[..., 4:5], shape)
        turned = ops.concatenate([center, 2 * longer, 2 * shorter, angle], axis=-1)
        factor = _fitting_factor(shape, shape.frame(turned), half)
        return ops.concatenate([center, 2 * factor * longer, 2 * factor * shorter, angle], axis=-1)

    def mirrored(self, raw):
        raw = ops.cast(raw, "float32")
        left, top, right, bottom = ops.split(raw[..., :NUM_EDGES], NUM_EDGES, axis=-1)
        turn = -raw[..., NUM_EDGES:-NUM_EDGES]
        off_left, off_top, off_right, off_bottom = ops.split(raw[..., -NUM_EDGES:], NUM_EDGES, -1)
        return ops.concatenate(
            [1 - right, top, 1 - left, bottom, turn, off_right, off_top, off_left, off_bottom],
            axis=-1,
        )

    def mean(self, one, other):
        """Return the mean of both, whose edges deviate more where the two views disagree.

        Take each view's profile for half of what is known of an edge. From the mean position, it
        deviates as the views do by themselves, and by half of the distance between them. Both are
        combined by the root of their squares.
        """
        mean = super().mean(ops.cast(one, "float32"), ops.cast(other, "float32"))
        apart = (one[..., :NUM_EDGES] - other[..., :NUM_EDGES]) / 2
        off = ops.sqrt(ops.square(mean[..., -NUM_EDGES:]) + ops.square(ops.cast(apart, "float32")))
        return ops.concatenate([mean[..., :-NUM_EDGES], off], axis=-1)

    def expected_iou(self, raw):
        """Return the IoU [...] that the upright box can be expected to have with the object's.

        Take the object's edges to lie as the head's profiles say, each for itself. An edge that is
        d off on average is d/2 inside of the box on average. So along an axis of extent w the
        intersection can be expected to be w − (d₁ + d₂)/2. Let o be the product of this over w
        along both axes. If both boxes are equally large on average, their IoU is o/(2 − o).
        """
        raw = ops.cast(raw, "float32")
        off = raw[..., -NUM_EDGES:]
        off = (off[..., :2] + off[..., 2:]) / 2
        extents = ops.maximum(_extents(raw[..., :NUM_EDGES]), MIN_EXTENT)
        # By logarithms: TFLite's division of 8-bit integers ends with an error for a divisor whose
        # byte is 0, and that byte stands for half an image.
        shares = 1 - off * ops.exp(-ops.log(extents))
        shared = ops.prod(ops.maximum(shares, 0.0), axis=-1)
        return shared / (2 - shared)

    def encode(self, coefficients, shape, margin=1e-4):
        coefficients = ops.convert_to_tensor(coefficients, "float32")
        center, extents = coefficients[..., :2], coefficients[..., 2:4]
        if not shape.rotates:
            return _certain([center - extents / 2, center + extents / 2])
        extents = ops.maximum(extents, MIN_EXTENT)
        frame = shape.frame(ops.concatenate([center, extents, coefficients[..., 4:]], axis=-1))
        half = ops.sqrt(ops.square(frame.u) + ops.square(frame.v))
        product = frame.u * ops.flip(frame.u, -1) + frame.v * ops.flip(frame.v, -1)
        correlation = product[..., :1] / ops.prod(half, axis=-1, keepdims=True)
        half = half / _fitting_factor(shape, frame, half)
        return _certain([center - half, center + half, correlation])


def _certain(outputs):
    """Return outputs, a list of [..., n], with edges that do not deviate."""
    return ops.concatenate([*outputs, *[ops.zeros_like(outputs[0])] * 2], axis=-1)


def _extents(edges):
    """Return width and height [..., 2]: an untrained head may have ends change places."""
    return ops.abs(edges[..., 2:] - edges[..., :2])


def _axes(half, correlation, shape):
    """Return half axes and angle [..., 1] of the ellipse that touches a box of half extents."""
    correlation = ops.clip(correlation, -_LARGEST_CORRELATION, _LARGEST_CORRELATION)
    width, height = half[..., :1], half[..., 1:]
    total = ops.square(width) + ops.square(height)
    e1 = (ops.square(width) - ops.square(height)) / total
    e2 = 2 * correlation * width * height / total
    # At the circle the angle has no derivative, so ellipses are moved away from it, see `seamless`.
    is_round = ops.square(e1) + ops.square(e2) < ROUND**2
    e1 = ops.where(is_round, e1 + 2 * ROUND, e1)
    elongation = ops.sqrt(ops.square(e1) + ops.square(e2))
    longer = ops.sqrt(total * (1 + elongation) / 2)
    # From their product, because a difference of nearly equal numbers would lose a short axis.
    shorter = width * height * ops.sqrt(1 - ops.square(correlation)) / longer
    damping = 0.0 if shape.outline_kind == "ellipse" else SQUARE
    return longer, shorter, half_direction(e1, e2, damping=damping)


def _fitting_factor(shape: Shape, frame: Frame, half):
    """Return the factor [..., 1] that gives the shape's box the area of one of half extents."""
    extent = shape.figure_extent(frame.u, frame.v)
    return ops.sqrt(ops.prod(half, axis=-1, keepdims=True)) / ops.sqrt(
        ops.prod(extent, axis=-1, keepdims=True)
    )
