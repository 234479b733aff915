"""What the paper's network learns from: crops, good initial weights, and its statistics."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from gc_net import shapes
from gc_net.generators.crops import (
    CANVAS,
    CELL,
    CELLS,
    CROP_CELLS,
    CropModel,
    affine,
    crop_corner,
    crop_side,
)

# Part of the crops that lie anywhere; the others are on the shape's border.
ANYWHERE = 0.25
# Shapes that are drawn for each one that is kept.
CANDIDATES = 6


def crop_batch(
    shape: Any, batch_size: int, seed: Any, sampler: str, cells: int = CROP_CELLS
) -> tuple[tuple[Any, Any], Any, Any]:
    """Return `(coefficients, first cells)`, exact masks, and weights of a batch of crops."""
    seed = tf.cast(tf.convert_to_tensor(seed), tf.int32)
    # Shapes have a seed of their own: of the same seed they would be made by the same numbers as
    # the choices below, and whole ranges of angles would never be kept.
    seeds = tf.unstack(tf.random.split(seed, 6))
    coefficients = shape.sample(CANDIDATES * batch_size, seeds[5], sampler)
    # An error along the border costs IoU in proportion to the border's length over the area. Thin
    # shapes are kept more often by the root of that, and weigh more by the root of it as well.
    width, height = coefficients[:, 2], coefficients[:, 3]
    importance = tf.sqrt((width + height) / (width * height))
    uniform = tf.random.stateless_uniform([len(importance)], seeds[4], minval=1e-6)
    chosen = tf.math.top_k(tf.math.log(importance) - tf.math.log(-tf.math.log(uniform)), batch_size)
    coefficients = tf.gather(coefficients, chosen.indices)
    weights = tf.gather(importance, chosen.indices)
    weights = weights / tf.reduce_mean(weights)
    # A point of the outline, anywhere between two neighbours.
    outline = shape.outline(coefficients)
    count = outline.shape[1]
    index = tf.random.stateless_uniform([batch_size], seeds[0], 0, count, tf.int32)
    share = tf.random.stateless_uniform([batch_size, 1], seeds[1])
    point = (1 - share) * tf.gather(outline, index, batch_dims=1)
    point += share * tf.gather(outline, (index + 1) % count, batch_dims=1)
    draw = tf.random.stateless_uniform([batch_size, 3], seeds[2])
    point = tf.where(draw[:, :1] < ANYWHERE, draw[:, 1:], point)[:, ::-1] * CANVAS  # row, column
    # A crop that has this point anywhere in it.
    side = crop_side(cells)
    within = tf.random.stateless_uniform([batch_size, 2], seeds[3]) * side
    first_cells = tf.cast(tf.math.ceil((point - within - crop_corner(0)) / CELL), tf.int32)
    first_cells = tf.clip_by_value(first_cells, -1, CELLS + 1 - cells)
    pixels = crop_corner(first_cells)[..., None] + tf.range(side)  # [B, 2, S]
    y, x = tf.unstack((tf.cast(pixels, tf.float32) + 0.5) / CANVAS, axis=1)
    masks = shape.level_set(coefficients, x[:, None, :], y[:, :, None]) <= 0
    rows, columns = tf.unstack(tf.cast((pixels >= 0) & (pixels < CANVAS), tf.float32), axis=1)
    weights = weights[:, None, None] * rows[:, :, None] * columns[:, None, :]
    return (coefficients, first_cells), tf.cast(masks, tf.float32)[..., None], weights


def rendered_crops(
    shape: Any,
    sampler: str,
    batch_size: int,
    steps: int,
    seed: int,
    start: int = 0,
    num_shards: int = 1,
    shard_index: int = 0,
) -> tf.data.Dataset:
    """Return a tf.data.Dataset of batches for a `CropModel`, like `fitting.rendered_batches`."""
    shape = shapes.get(shape)

    def render(step_seed):
        batch = crop_batch(shape, batch_size, step_seed, sampler)
        return tf.nest.map_structure(lambda x: tf.split(x, num_shards)[shard_index], batch)

    return rendered(render, seed, start, steps)


def rendered(render: Callable[[Any], Any], seed: int, start: int, steps: int) -> tf.data.Dataset:
    """Return what `render` makes of the seed of each step, from `start` to `steps`."""
    batches = tf.data.Dataset.range(start, steps).map(
        lambda step: render(tf.stack([tf.cast(seed, tf.int64), step])), num_parallel_calls=2
    )
    return batches.prefetch(tf.data.AUTOTUNE)


def initialize(model: CropModel, sampler: str, seed: int) -> None:
    """Set initial weights from which the network learns fast.

    By default, seeds are random, many are cut off by their ReLU, and a cell cannot tell where it is
    nor what it sees. Here `seed_maps` says what each seed passes on. Random kernels are scaled to
    outputs of variance one, with thresholds spread over them.
    """
    generator = np.random.default_rng(seed)
    shape, layer = model.generator.shape, model.network.stack.get_layer
    for variable, values in zip(layer("seed").weights, seed_maps(shape), strict=True):
        variable.assign(values)
    (coefficients, first_cells), *_ = crop_batch(shape, 512, (seed, -1), sampler, model.cells)
    for index in range(1, 5):
        up = layer(f"up{index}" if index < 4 else "logits")
        kernel = generator.normal(size=up.kernel.shape)
        up.kernel.assign(kernel)
        if index < 4:
            norm = layer(f"norm{index}")
            norm.gamma.assign(tf.ones_like(norm.gamma))
            norm.beta.assign(tf.zeros_like(norm.beta))
            norm.moving_mean.assign(tf.zeros_like(norm.gamma))
            norm.moving_variance.assign(tf.ones_like(norm.gamma) - norm.epsilon)
        output = model.layer_outputs(coefficients, first_cells, depth=index)[-1]
        mean, variance = (value.numpy() for value in tf.nn.moments(output, [0, 1, 2]))
        deviation = np.sqrt(variance)
        if index < 4:
            up.kernel.assign(kernel / deviation[:, None])
            spread = 1.0 if index == 1 else 0.5
            norm.beta.assign(generator.normal(-mean / deviation, spread))
        else:
            up.kernel.assign(0.3 * kernel / deviation[:, None])


def seed_maps(shape: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the kernel [n, 144] and the bias [144] of the first layer.

    Each seed passes on one quantity, relative to its own place, in an order that repeats itself.
    The sides of an upright shape are such quantities: 2×2 neighbours have all four. The sides of a
    turned one are no linear function of the coefficients, so these are passed on themselves: 2×3
    neighbours have all five.
    """
    row, column = np.mgrid[:12, :12]
    x, y = (2 * (axis + 1.5) / CELLS - 1 for axis in (column, row))  # as coefficients: −1 to 1
    places = np.arange(144)
    kernel = np.zeros([shape.num_coefficients, 144])
    if shape.rotates:
        which = ((row + 2 * column) % shape.num_coefficients).ravel()
        # Positive throughout the range, so that no seed is cut off.
        kernel[which, places] = 2.0
        shift = [2 - x.ravel(), 2 - y.ravel(), *np.ones([shape.num_coefficients - 2, 144])]
        return kernel, 2.0 * np.choose(which, shift)
    axis, far = (row % 2).ravel(), (column % 2).ravel()
    sign = 1 - 2 * far
    # How far the seed lies inside the left or upper side, or the right or lower one; cut off one
    # cell outside.
    kernel[axis, places] = -4.0 * sign
    kernel[2 + axis, places] = 2.0
    return kernel, 4.0 * sign * np.where(axis, y.ravel(), x.ravel()) + 2.5


def settle(model: CropModel, sampler: str, seed: int, num_samples: int = 256) -> None:
    """Set the moving statistics to those of whole canvases; the masks stay the same.

    So the network draws nearly the same with the statistics of a batch, which the authors' detector
    was trained with (`frozen_mode="training"`).
    """
    whole = CropModel(model.generator, cells=CELLS + 2)
    shape, layer = model.generator.shape, model.network.stack.get_layer
    moments = [[], [], []]
    for batch in range(num_samples // 16):
        coefficients = shape.sample(16, (seed, batch), sampler)
        outputs = whole.layer_outputs(coefficients, tf.fill([16, 2], -1), depth=3)
        for found, output in zip(moments, outputs, strict=True):
            inner = output[:, 1:-1, 1:-1]  # the canvas itself
            found.append([tf.reduce_mean(inner**power, [0, 1, 2]).numpy() for power in (1, 2)])
    for index, found in enumerate(moments, 1):
        norm = layer(f"norm{index}")
        scale, shift = (value.numpy() for value in affine(norm))
        mean, square = np.mean(found, axis=0)
        # Of the layer's input, of which these are the moments after scale and shift.
        variance = np.maximum(square - mean**2, 0.0) / scale**2
        norm.moving_mean.assign((mean - shift) / scale)
        norm.moving_variance.assign(variance)
        norm.gamma.assign(scale * np.sqrt(variance + norm.epsilon))
        norm.beta.assign(mean)


@keras.saving.register_keras_serializable(package="gc_net")
class KernelMuon(keras.optimizers.Muon):
    """Muon for the kernels of transposed convolutions, and Adam for all other weights.

    Adam moves each weight by its own gradient, along the few directions of a kernel that most
    crops ask for. Muon makes all directions of the update equally large. With as many steps, masks
    of turned shapes then miss little more than half as much.

    Keras' Muon changes matrices alone, so a kernel is seen as the matrix that `CropModel`
    multiplies by, from the cells below an output to all pixels that they become.
    """

    def _should_use_adamw(self, variable):
        return len(variable.shape) != 4

    def update_step(self, gradient, variable, learning_rate):
        # Both rates are given, as absolute ones: that of Adam is the schedule's.
        if self._should_use_adamw(variable):
            super().update_step(gradient, variable, learning_rate)
        else:
            super().update_step(gradient, variable, KERNEL_RATE * learning_rate)

    def lr_adjust(self, x):
        return x  # `zeropower_via_newtonschulz5` has done it

    def zeropower_via_newtonschulz5(self, x, steps):
        matrix = kernel_matrix(x)
        rows, columns = matrix.shape
        # Half the bytes of float32, and its own units on many processors; only directions count.
        matrix = super().zeropower_via_newtonschulz5(tf.cast(matrix, tf.bfloat16), steps)
        matrix = tf.cast(matrix, x.dtype) * max(1.0, rows / columns) ** 0.5
        return matrix_kernel(matrix, x.shape)


# How much farther Muon moves a kernel than Adam moves another weight.
KERNEL_RATE = 10.0


def kernel_matrix(kernel: Any) -> Any:
    """Return a transposed convolution's kernel [k, k, out, in] as a matrix [inputs, outputs].

    With size 3 and stride 1, an output sees 9 cells of the input; with size 4 and stride 2, 4
    outputs see the same 4 cells.
    """
    k = tf.transpose(kernel, [0, 1, 3, 2])
    size, _, inputs, outputs = k.shape
    if size == 3:
        return tf.reshape(k, [9 * inputs, outputs])
    k = tf.transpose(tf.reshape(k, [2, 2, 2, 2, inputs, outputs]), [0, 2, 4, 1, 3, 5])
    return tf.reshape(k, [4 * inputs, 4 * outputs])


def matrix_kernel(matrix: Any, shape: tuple[int, int, int, int]) -> Any:
    """Return the kernel of `shape` that `kernel_matrix` made this matrix of."""
    size, _, outputs, inputs = shape
    if size == 3:
        k = tf.reshape(matrix, [3, 3, inputs, outputs])
    else:
        k = tf.reshape(matrix, [2, 2, inputs, 2, 2, outputs])
        k = tf.reshape(tf.transpose(k, [0, 3, 1, 4, 2, 5]), [4, 4, inputs, outputs])
    return tf.transpose(k, [0, 1, 3, 2])


def crop_optimizer(learning_rate: Any) -> KernelMuon:
    """Return the optimizer of a `CropModel`."""
    return KernelMuon(
        learning_rate, adam_beta_2=0.99, weight_decay=None, rms_rate=None, global_clipnorm=1.0
    )


def compile_crops(model: CropModel, learning_rate: float, steps: int) -> None:
    """Compile with `KernelMuon`; its rate rises for a twentieth of the steps, and falls to zero."""
    warmup = max(min(steps // 20, 500), 1)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, max(steps - warmup, 1), warmup_target=learning_rate, warmup_steps=warmup
    )
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(optimizer=crop_optimizer(schedule), loss=loss, jit_compile=False)
