"""The base class of parametrizations."""

import abc
from typing import Any

import numpy as np
from keras import ops

from gc_net.shapes.base import Shape


class Parametrization(abc.ABC):
    """A map of raw outputs to coefficients, and back.

    Attributes:
        name: Name in the registry.
        head: The only head whose outputs it reads; None for all heads with outputs of any value.
        has_deviations: Whether the outputs say how far they may be off, so that there is an
            `expected_iou`.
    """

    name: str
    head: str | None = None
    has_deviations: bool = False

    def num_outputs(self, shape: Shape) -> int:
        """Return the number of raw outputs of a detector of this shape."""
        return shape.num_coefficients

    @abc.abstractmethod
    def decode(self, raw: Any, shape: Shape) -> Any:
        """Map raw outputs [..., n] to coefficients [..., n], float32."""

    def mirrored(self, raw: Any) -> Any:
        """Return the raw outputs [..., n] of the mirrored shapes, left to right."""
        # In the mirror image, the centre's x and the turn, if there is one, have the other sign.
        sign = np.float32([-1, 1, 1, 1, -1][: raw.shape[-1]])
        return ops.cast(raw, "float32") * sign

    def mean(self, one: Any, other: Any) -> Any:
        """Return the mean [..., n] of the raw outputs for two views of an image.

        Of raw outputs, because two angles have no mean.
        """
        return (one + other) / 2

    def expected_iou(self, raw: Any) -> Any:
        """Return the IoU [...] with the true boxes that outputs [..., n] let one expect."""
        raise NotImplementedError(f"The outputs of {self.name!r} do not say how sure they are.")

    @abc.abstractmethod
    def encode(self, coefficients: Any, shape: Shape, margin: float = 1e-4) -> Any:
        """Return raw outputs [..., n] that `decode` maps to the same shapes.

        Args:
            margin: Least distance of centres and extents from 0 and 1, which no output reaches.
        """


def logit(unit: Any, margin: float) -> Any:
    """Invert the sigmoid, for values at least `margin` away from 0 and 1."""
    unit = ops.clip(unit, margin, 1 - margin)
    return ops.log(unit) - ops.log1p(-unit)
