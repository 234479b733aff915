"""Networks for the learned generator: from coefficients in [−1, 1] to mask logits."""

from typing import Any

import keras
import numpy as np
from keras import layers, ops

from gc_net.registry import Registry
from gc_net.shapes.base import pixel_grid


@keras.saving.register_keras_serializable(package="gc_net")
class PaperNetwork(keras.Model):
    """The paper's network, 660,448 trained parameters for five coefficients.

    A dense layer makes a 12×12 seed; transposed convolutions enlarge it, 12 → 14 → 28 → 56 → (×2)
    112 → 224. For other image sizes its logits are resized, as in the authors' code for
    Inception-V3's 299.
    """

    train_size = 224
    # A pixel depends on few cells of the seed, so that training can draw crops alone.
    local = True

    def __init__(self, num_coefficients: int, name: str = "paper", **kwargs: Any):
        super().__init__(name=name, **{"dtype": "float32", **kwargs})
        self.num_coefficients = num_coefficients
        kernel = keras.initializers.RandomNormal(stddev=0.02)
        x = inputs = keras.Input((num_coefficients,), name="coefficients")
        x = layers.Dense(144, activation="relu", dtype="float32", name="seed")(x)
        x = layers.Reshape((12, 12, 1), name="seed_map")(x)
        for index, (filters, size, strides) in enumerate([(256, 3, 1), (128, 4, 2), (64, 4, 2)], 1):
            x = layers.Conv2DTranspose(
                filters,
                size,
                strides=strides,
                padding="valid" if strides == 1 else "same",
                use_bias=False,
                kernel_initializer=kernel,
                name=f"up{index}",
            )(x)
            # PyTorch's defaults, momentum 0.1 and epsilon 1e-5, in Keras' terms.
            x = layers.BatchNormalization(
                momentum=0.9,
                epsilon=1e-5,
                gamma_initializer=keras.initializers.RandomNormal(mean=1.0, stddev=0.02),
                name=f"norm{index}",
            )(x)
            x = layers.ReLU(name=f"relu{index}")(x)
        x = layers.UpSampling2D(2, name="upsample")(x)  # nearest, 56 → 112
        outputs = layers.Conv2DTranspose(
            1,
            4,
            strides=2,
            padding="same",
            use_bias=False,
            kernel_initializer=kernel,
            dtype="float32",
            name="logits",
        )(x)
        self.stack = keras.Model(inputs, outputs, name="stack")
        self.built = True

    def call(self, coefficients, image_size, training=False):
        logits = self.stack(coefficients, training=training)
        if logits.shape[1:3] != tuple(image_size):
            logits = ops.image.resize(logits, image_size, interpolation="bilinear", antialias=True)
        return logits

    def get_config(self):
        return {"num_coefficients": self.num_coefficients, "name": self.name}


@keras.saving.register_keras_serializable(package="gc_net")
class ImplicitNetwork(keras.Model):
    """A network that works pixel by pixel, and so draws at any size: about 42,000 parameters.

    The paper's network draws on a fixed canvas, and must memorise rotated edges between its cells
    for every position. Here a few dense layers turn the coefficients into `num_curves` curves of
    the second degree about the shape's centre. Two more layers, the same for every pixel, decide
    from a pixel's side of each curve whether it lies inside. An ellipse needs one such curve, a
    rectangle four; the curves are learned.
    """

    # Small masks are enough: centres are continuous, so over many samples the pixels of a small
    # mask see every part of a shape.
    train_size = 48
    local = False

    def __init__(
        self,
        num_coefficients: int,
        num_curves: int = 8,
        units: int = 128,
        name: str = "implicit",
        **kwargs: Any,
    ):
        super().__init__(name=name, **{"dtype": "float32", **kwargs})
        self.num_coefficients = num_coefficients
        self.num_curves = num_curves
        self.units = units
        inputs = keras.Input((4 * num_coefficients,), name="coefficients")
        x = inputs
        for index in range(1, 4):
            x = layers.Dense(units, activation="silu", dtype="float32", name=f"dense{index}")(x)
        x = layers.Dense(num_curves * 6, dtype="float32", name="curves")(x)
        x = layers.Reshape((num_curves, 6), dtype="float32", name="polynomials")(x)
        self.curves = keras.Model(inputs, x, name="curves")
        self.mix = layers.Dense(2 * num_curves, activation="relu", dtype="float32", name="mix")
        self.mix.build((None, None, num_curves))
        self.decide = layers.Dense(1, dtype="float32", name="decide")
        self.decide.build((None, None, 2 * num_curves))
        self.built = True

    def call(self, coefficients, image_size, training=False):
        height, width = image_size
        unit = (coefficients + 1.0) / 2.0
        # Logarithms distinguish tiny extents; harmonics make the angle periodic.
        turn = 2 * np.pi * unit
        features = [coefficients, ops.log(unit + 0.01), ops.sin(turn), ops.cos(turn)]
        curves = self.curves(ops.concatenate(features, axis=-1))  # [B, K, 6]
        x, y = pixel_grid(height, width)
        # Added to zeros of the full shape, because every power below is needed at every pixel.
        dx = 4.0 * (x - unit[:, 0, None, None]) + ops.zeros_like(y)  # [B, H, W]
        dy = 4.0 * (y - unit[:, 1, None, None]) + ops.zeros_like(x)
        powers = ops.stack([ops.ones_like(dx), dx, dy, dx * dx, dx * dy, dy * dy], axis=-1)
        powers = ops.reshape(powers, (-1, height * width, 6))
        values = ops.matmul(powers, ops.transpose(curves, (0, 2, 1)))  # [B, H·W, K]
        logits = self.decide(self.mix(values))
        return ops.reshape(logits, (-1, height, width, 1))

    def get_config(self):
        return {
            "num_coefficients": self.num_coefficients,
            "num_curves": self.num_curves,
            "units": self.units,
            "name": self.name,
        }


NETWORKS = Registry("generator network", {"implicit": ImplicitNetwork, "paper": PaperNetwork})
