"""A parametrization without a seam: size and elongation, see `gc_net.parametrizations`."""

from typing import Any

from keras import ops

from gc_net.parametrizations.base import Parametrization, logit

# A smaller elongation is moved away from the origin by twice this value, 0.1 % of an extent,
# because the angle has no derivative at the origin.
ROUND = 1e-3
# Unlike a circle, a square changes when it turns. So the derivative by the direction of the
# elongation grows without bound when a rectangle becomes square. It is damped below this
# elongation.
SQUARE = 0.1


class Seamless(Parametrization):
    """A size, and an elongation as a vector at twice the angle."""

    name = "seamless"

    def decode(self, raw, shape):
        raw = ops.cast(raw, "float32")
        if not shape.rotates:
            return ops.sigmoid(raw)
        size, e1, e2 = (raw[..., place : place + 1] for place in (2, 3, 4))
        is_round = ops.square(e1) + ops.square(e2) < ROUND**2
        e1 = ops.where(is_round, e1 + 2 * ROUND, e1)
        half = ops.sqrt(ops.square(e1) + ops.square(e2)) / 2
        extents = [ops.sigmoid(size + half), ops.sigmoid(size - half)]  # the longer one first
        damping = 0.0 if shape.outline_kind == "ellipse" else SQUARE
        angle = half_direction(e1, e2, damping=damping)
        return ops.concatenate([ops.sigmoid(raw[..., :2]), *extents, angle], axis=-1)

    def encode(self, coefficients, shape, margin=1e-4):
        coefficients = ops.convert_to_tensor(coefficients, "float32")
        logits = logit(coefficients[..., :4], margin)
        if not shape.rotates:
            return logits
        width, height, turn = logits[..., 2:3], logits[..., 3:4], 2 * coefficients[..., 4:5]
        size, elongation = (width + height) / 2, width - height
        vector = [elongation * ops.cos(turn), elongation * ops.sin(turn)]
        return ops.concatenate([logits[..., :2], size, *vector], axis=-1)


def half_direction(e1: Any, e2: Any, damping: float) -> Any:
    """Return θ = ½·atan2(e₂, e₁), with the derivative ½·(−e₂, e₁)/(e² + damping²)."""
    square = ops.stop_gradient(ops.square(e1) + ops.square(e2) + damping**2)
    # Only its derivative counts. Division first, because products of large outputs would overflow.
    slope = (e2 * ops.stop_gradient(e1 / square) - e1 * ops.stop_gradient(e2 / square)) / 2
    return ops.stop_gradient(ops.arctan2(e2, e1) / 2) + slope - ops.stop_gradient(slope)
