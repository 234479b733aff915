"""The learning-driven generator: a network that turns coefficients into masks."""

import os
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from gc_net import shapes
from gc_net.generators import networks
from gc_net.generators.base import Generator, size_pair
from gc_net.weights import load_weights_npz

if TYPE_CHECKING:
    from gc_net.shapes.base import Shape

WEIGHTS = os.path.join(os.path.dirname(__file__), "weights")


def shipped_weights(shape: "str | Shape", network: str) -> str | None:
    """Return the path of the weights that come with the package, or None if there are none."""
    path = os.path.join(WEIGHTS, f"{shape}_{network}.npz")
    return path if os.path.exists(path) else None


@keras.saving.register_keras_serializable(package="gc_net")
class LearnedGenerator(Generator, keras.Model):
    """Masks from a network that was trained on rendered shapes.

    Args:
        shape: Name of a shape, or a `Shape`.
        image_size: Height and width of the masks; an integer, or a pair (height, width).
        network: `"implicit"`, or `"paper"`, the paper's network of 660k parameters, which knows the
            authors' range of shapes alone.
        weights: `"shipped"`, a path to an `.npz` file, or `None` for initial values.

    Example:
        generator = LearnedGenerator("rotated_ellipse", image_size=224)
        masks = generator(coefficients)  # [B, 224, 224, 1]
    """

    kind = "learned"
    takes = ("network", "weights")

    def __init__(
        self,
        shape: "str | Shape",
        image_size: int | tuple[int, int] = 224,
        network: str = "implicit",
        weights: str | os.PathLike | None = "shipped",
        name: str = "generator",
        **kwargs: Any,
    ):
        # Coefficients stay float32 under mixed precision: bfloat16 knows only 256 positions.
        super().__init__(name=name, **{"dtype": "float32", **kwargs})
        self.shape = shapes.get(shape)
        self.image_size = size_pair(image_size)
        self.network_name = network
        self.network = networks.NETWORKS.get(network)(self.shape.num_coefficients)
        if weights is not None:
            if weights == "shipped":
                weights = shipped_weights(self.shape.name, network)
                if weights is None:
                    raise ValueError(
                        f"No weights are shipped for the shape {self.shape.name!r} and the network "
                        f"{network!r}. Train them with `gc-net train_generator "
                        f"--detector_shape={self.shape.name} "
                        f"--detector_generator_network={network}` and pass the file."
                    )
            load_weights_npz(weights, self.network)
        self.built = True

    def call(self, coefficients, training=False, image_size=None):
        # Centred inputs help the training of the first, linear layer.
        unit = self.shape.to_unit(coefficients)
        size = image_size or self.image_size
        logits = self.network(2.0 * unit - 1.0, image_size=size, training=training)
        return ops.sigmoid(ops.cast(logits, "float32"))  # [B, H, W, 1]

    def get_config(self):
        return {
            "shape": self.shape.name,
            "image_size": self.image_size,
            "network": self.network_name,
            # A saved model has its own weights.
            "weights": None,
            "name": self.name,
        }
