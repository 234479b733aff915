"""Named settings for the differences of the paper and the authors' code, and one beyond both.

| | `paper` | `reference` |
|---|---|---|
| α, β, γ with the model generator | 1, 2.5, 1 | 2.5, 1, 1 |
| α, β, γ with the learned generator | 1, 1, 1 | 1, 1, 1 |
| the frozen networks run | as at inference | as in training: dropout, batch statistics |
| learning rates | one for all | biases ×2, last layer ×10, its bias ×20, sharpness ×10 |
| detector's rate | constant | falls from epoch 20 on, each factor on top of the last |
| pixel i of N lies at | (i + ½)/N | i/(N − 1) |
| α with the learned upright rectangle | 1 | 0.25: the code's coefficients are half extents |

`scaled` is like `paper`, but with α = 2.5 · ln C / ln 200 for C classes and β = γ = 1, because the
object and background losses are measured in nats, of which there are ln C. For the 200 birds of CUB
these are the authors' values for the model generator. For other numbers of classes, shapes stay as
large. Its detector is parametrized without a seam (`gc_net.parametrizations`); in the paper and in
the authors' code, each coefficient is a sigmoid.

Three differences have no effect and no setting: the paper adds up losses over the images, and the
code takes means (Adam does not see the factor); the code adds a constant to the background loss;
and it turns one of its rectangles the other way.
"""

import dataclasses
import math
from collections.abc import Mapping

from gc_net.optimizers import REFERENCE_MULTIPLIERS
from gc_net.registry import Registry


@dataclasses.dataclass(frozen=True)
class Preset:
    """Settings of a detector's training.

    Attributes:
        area_object_background: α, β and γ by the generator's kind, or by "kind/shape" if a shape
            has its own.
        frozen_mode: `"inference"`, or `"training"` to run the frozen networks as in training.
        multipliers: Learning-rate multipliers, see `gc_net.optimizers`.
        decay_start: Epoch after which the rate falls, or None to keep it.
        grid: Where pixels lie, see `gc_net.shapes.base.pixel_grid`.
        num_classes: Number of classes that α is for; for other numbers α is in proportion to their
            logarithm. None for the same α for any number.
        parametrization: How a detector's outputs become coefficients, see
            `gc_net.parametrizations`.
    """

    area_object_background: Mapping[str, tuple[float, float, float]]
    frozen_mode: str = "inference"
    multipliers: tuple[tuple[str, float], ...] = ()
    decay_start: int | None = None
    grid: str = "centers"
    num_classes: int | None = None
    parametrization: str = "seamless"

    def loss_weights(self, generator: str, shape: str, num_classes: int) -> dict[str, float]:
        """Return the weights of the loss terms, for `GCNet(..., loss_weights=...)`.

        Args:
            generator: Its kind. An unknown kind, such as your own, has the weights of `"model"`.
            shape: Name of the shape.
            num_classes: Number of classes.
        """
        weights = self.area_object_background
        alpha, beta, gamma = weights.get(f"{generator}/{shape}") or weights.get(
            generator, weights["model"]
        )
        if self.num_classes is not None:
            alpha *= math.log(num_classes) / math.log(self.num_classes)
        return {"area": alpha, "object": beta, "background": gamma}

    def rate_factor(self, epoch: int, epochs: int) -> float:
        """Return the factor of the learning rate in `epoch`, of `epochs`, counted from 0.

        The authors meant a linear fall after `decay_start`, but they multiply each epoch's factor
        into the rate of the epoch before: .9, .72, .504 and so on in epochs 22–29 of 30.
        """
        factor = 1.0
        if self.decay_start is not None:
            for past in range(self.decay_start + 1, epoch + 1):
                factor *= 1.0 - (past - self.decay_start - 1) / (epochs - self.decay_start)
        return factor


PAPER = Preset(
    area_object_background={"model": (1.0, 2.5, 1.0), "learned": (1.0, 1.0, 1.0)},
    parametrization="sigmoid",
)

REFERENCE = Preset(
    area_object_background={
        "model": (2.5, 1.0, 1.0),
        "learned": (1.0, 1.0, 1.0),
        "learned/rectangle": (0.25, 1.0, 1.0),
    },
    frozen_mode="training",
    multipliers=REFERENCE_MULTIPLIERS,
    decay_start=20,
    grid="corners",
    parametrization="sigmoid",
)

SCALED = Preset(
    area_object_background={"model": (2.5, 1.0, 1.0), "learned": (2.5, 1.0, 1.0)}, num_classes=200
)

PRESETS = Registry("preset", {"paper": PAPER, "reference": REFERENCE, "scaled": SCALED})


def get(name: str | Preset) -> Preset:
    """Return the preset called `name`; a preset passes through."""
    return PRESETS.get(name) if isinstance(name, str) else name
