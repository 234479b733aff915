"""Training of the paper's network on crops of its canvas.

After its first layer, the network is local: a pixel depends on 5×5 of the 12×12 seeds. So a crop
of its logits can be computed alone, exactly, and costs only its share of the canvas. Crops around
a shape's border hold most of what there is to learn.
"""

from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from gc_net.generators.learned import LearnedGenerator
    from gc_net.generators.networks import PaperNetwork

# The canvas has 14×14 cells of 16 pixels. A crop is computed from this many cells a side.
CELLS, CELL, CANVAS = 14, 16, 224
CROP_CELLS = 4


def crop_side(cells: int = CROP_CELLS) -> int:
    """Return the side in pixels of a crop; one of 16 cells is the canvas and two pixels around."""
    # Each of the three last layers needs a neighbour on either side: 2(n − 1), twice, and 4(n − 1).
    return CELL * cells - 28


def crop_corner(first_cells: Any) -> Any:
    """Return the first row or column, in pixels of the canvas, of crops from these cells on."""
    return CELL * first_cells + 14


class CropModel(keras.Model):
    """Draws logits of crops of a `PaperNetwork`'s canvas, with the network's own weights.

    Batch normalization always takes the moving statistics, since those of crops differ from those
    of the canvas.

    Args:
        generator: A `LearnedGenerator` with a `PaperNetwork`, whose weights are trained.
        cells: Cells along the side of a crop.
        compiled: Compile by XLA: the maps between the convolutions cost as much as these. It takes
            some seconds at the start.
    """

    def __init__(
        self, generator: "LearnedGenerator", cells: int = CROP_CELLS, compiled: bool = False
    ):
        super().__init__(name="crops")
        self.generator = generator
        self.cells = cells
        self._drawn = lambda *inputs: self.layer_outputs(*inputs)[-1]
        if compiled:
            self._drawn = tf.function(self._drawn, jit_compile=True)
        self.built = True

    @property
    def network(self) -> "PaperNetwork":
        return self.generator.network

    def call(self, inputs, training=False):
        """Return logits [B, S, S, 1].

        Args:
            inputs: Coefficients [B, n] and the first cells [B, 2] of the crops, row and column,
                from −1 on.
        """
        return self._drawn(*inputs)

    def layer_outputs(self, coefficients: Any, first_cells: Any, depth: int = 4) -> list[Any]:
        """Return what the first `depth` transposed convolutions make of a crop.

        Outputs are normalized, before the activation. Those of the last are the logits.
        """
        layer = self.network.stack.get_layer
        unit = 2.0 * self.generator.shape.to_unit(coefficients) - 1.0
        seeds = tf.reshape(layer("seed")(unit), [-1, 12, 12])
        # Cell i depends on the seeds i − 2 to i.
        x = _cut(seeds, first_cells - 2, self.cells + 2)[..., None]
        first, outputs = first_cells, []
        for index in range(1, depth + 1):
            name = f"up{index}" if index < 4 else "logits"
            kernel = tf.convert_to_tensor(layer(name).kernel)  # [k, k, out, in]
            if index == 4:
                x = tf.nn.conv2d(x, _quadrupling(kernel), 1, "VALID")
                outputs.append(tf.nn.depth_to_space(x, 4))
                break
            scale, shift = affine(layer(f"norm{index}"))
            kernel = kernel * scale[:, None]  # cheaper than to multiply the maps
            if index == 1:
                x = tf.nn.conv2d(x, tf.transpose(kernel[::-1, ::-1], [0, 1, 3, 2]), 1, "VALID")
            else:
                x = tf.nn.conv2d(x, _doubling(kernel), 1, "VALID")
                x = tf.nn.depth_to_space(x, 2)
                first = 2 * first + 1
            outputs.append(x + shift)
            # Beyond the canvas, the network's layers see zeros.
            x = tf.nn.relu(outputs[-1]) * _on_canvas(first, x.shape[1], CELLS << (index - 1))
        return outputs


def _cut(maps, first, side):
    """Return squares [B, side, side] of maps [B, H, W], with zeros beyond them."""
    around = side + 1
    maps = tf.pad(maps, [[0, 0], [around, around], [around, around]])
    for axis in (0, 1):
        index = first[:, axis : axis + 1] + around + tf.range(side)
        # A gather of rows, and then one of columns as the rows of the transposed map.
        maps = tf.transpose(tf.gather(maps, index, axis=1, batch_dims=1), [0, 2, 1])
    return maps


def affine(norm: keras.layers.BatchNormalization) -> tuple[Any, Any]:
    """Return the scale and the shift that a batch normalization is at inference."""
    scale = norm.gamma * tf.math.rsqrt(norm.moving_variance + norm.epsilon)
    return scale, norm.beta - norm.moving_mean * scale


def _doubling(kernel):
    """Return the ordinary 2×2 kernel that does the same as a transposed one of size 4, stride 2.

    Between two cells, it gives the last half of the first and the first half of the second.
    """
    k = tf.transpose(kernel, [0, 1, 3, 2])  # [4, 4, in, out]
    k = tf.reshape(k, [2, 2, 2, 2, *k.shape[2:]])
    k = k[::-1, :, ::-1]
    k = tf.transpose(k, [0, 2, 4, 1, 3, 5])  # [2, 2, in, 2, 2, out]
    return tf.reshape(k, [2, 2, k.shape[2], -1])


def _quadrupling(kernel):
    """Return the 2×2 kernel of the enlargement to twice the size and the last layer together.

    Between two cells of four pixels, it gives two pixels of either.
    """
    k = tf.einsum("qit,rjs,tsoc->ijcqro", _REPEATED, _REPEATED, kernel)
    return tf.reshape(k, [2, 2, k.shape[2], -1])


def _repeated():
    """Return 1 where a pixel [4] sees a cell [2], each twice in the enlarged map, by a tap [4]."""
    seen = np.zeros([4, 2, 4], "float32")
    for pixel in range(4):
        for place in range(4):
            tap = pixel + 3 - 2 * place
            if 0 <= tap < 4:
                seen[pixel, place // 2, tap] = 1
    return seen


_REPEATED = _repeated()


def _on_canvas(first, side, limit):
    inside = [
        (index >= 0) & (index < limit)
        for index in (first[:, axis : axis + 1] + tf.range(side) for axis in (0, 1))
    ]
    return tf.cast(inside[0][:, :, None] & inside[1][:, None, :], "float32")[..., None]
