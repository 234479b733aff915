"""The model-driven generator: masks from the level set, with a learnable sharpness."""

import math
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from gc_net import shapes
from gc_net.generators.base import Generator, size_pair
from gc_net.shapes.base import GRIDS, pixel_grid

if TYPE_CHECKING:
    from gc_net.shapes.base import Shape

# Sharper than any image can show. Without it, the exponential could round to zero.
MIN_EPSILON = 1e-5
# Softer than any shape can show. Beyond it, the exponential would overflow.
MAX_EXPONENT = 20.0


@keras.saving.register_keras_serializable(package="gc_net")
class ModelGenerator(Generator, keras.layers.Layer):
    """M = ½ − arctan(φ/ε)/π: 1 inside the shape, 0 outside, ½ on its border.

    The paper prints the opposite sign, which would make the mask 1 outside. ε sets the width of the
    edge and is the only variable.

    Args:
        shape: Name of a shape, or a `Shape`.
        image_size: Height and width of the masks; an integer, or a pair (height, width).
        epsilon: Initial ε.
        grid: Where pixels lie, see `gc_net.shapes.base.pixel_grid`.

    Example:
        generator = ModelGenerator("rotated_ellipse", image_size=224)
        masks = generator(coefficients)  # [B, 224, 224, 1]
    """

    kind = "model"
    takes = ("epsilon", "grid")
    learns_with_detector = True  # its ε

    def __init__(
        self,
        shape: "str | Shape",
        image_size: int | tuple[int, int],
        epsilon: float = 0.1,
        grid: str = "centers",
        name: str = "generator",
        **kwargs: Any,
    ):
        # Coefficients stay float32 under mixed precision: bfloat16 knows only 256 positions, and
        # φ spans many orders of magnitude.
        super().__init__(name=name, **{"dtype": "float32", **kwargs})
        if not epsilon > 0:
            raise ValueError(f"`epsilon` must be positive. Received: epsilon={epsilon}")
        if grid not in GRIDS:
            raise ValueError(f'`grid` must be "centers" or "corners". Received: grid={grid!r}')
        self.shape = shapes.get(shape)
        self.image_size = size_pair(image_size)
        self.initial_epsilon = float(epsilon)
        self.grid = grid
        # The authors learn k = 1/ε, which may become negative. Here ε = ε₀·exp(−ε₀·v), with v = 0
        # at first. To first order, v moves like their k, at the same rates, and ε stays positive.
        self.sharpness = self.add_weight(
            shape=(), initializer="zeros", dtype="float32", name="sharpness"
        )
        self.built = True

    @property
    def epsilon(self) -> Any:
        """The current ε, a scalar tensor."""
        exponent = -self.initial_epsilon * ops.convert_to_tensor(self.sharpness)
        epsilon = self.initial_epsilon * ops.exp(ops.minimum(exponent, MAX_EXPONENT))
        return ops.maximum(epsilon, MIN_EPSILON)

    def call(self, coefficients, image_size=None):
        height, width = image_size or self.image_size
        x, y = pixel_grid(height, width, self.grid)
        level = self.shape.level_set(coefficients, x, y)
        return (0.5 - ops.arctan(level / self.epsilon) / math.pi)[..., None]  # [B, H, W, 1]

    def get_config(self):
        return {
            **super().get_config(),
            "shape": self.shape.name,
            "image_size": self.image_size,
            "epsilon": self.initial_epsilon,
            "grid": self.grid,
        }
