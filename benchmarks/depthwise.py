"""Depthwise convolution's backward pass: TensorFlow's operations, and other ways to the same.

All give the same gradients. They are here to show that none is faster.
"""

import tensorflow as tf

from benchmarks.rounds import conditions, in_turn, table
from gc_net import backbones

FORWARD = "forward"
INPUT, OTHER_INPUT = "input's gradient", "input's gradient, otherwise"
FILTER, OTHER_FILTER = "filter's gradient", "filter's gradient, shifted sums"
WAYS = (FORWARD, INPUT, OTHER_INPUT, FILTER, OTHER_FILTER)


def report(*, backbone="efficientnet_lite0", image_size=128, batch_size=32, rounds=3, seed=0):
    """Measure all depthwise layers of a backbone, those of one kind once.

    Args:
        backbone: Name of a backbone that has such layers.
        image_size: Side of the images.
        batch_size: Images a batch.
        rounds: How often each way has its turn.
        seed: Of the values.
    """
    yield f"{conditions()}, batches of {batch_size}, seed {seed}, medians of {rounds} rounds"
    rows, totals = [], dict.fromkeys(WAYS, 0.0)
    for layer, count in layers(backbone, image_size).items():
        timings = in_turn(ways(*layer, batch_size, seed), rounds)
        size, channels, kernel_size, stride = layer
        milliseconds = {way: 1000 * timings.processor_seconds(way) for way in WAYS}
        for way in WAYS:
            totals[way] += count * milliseconds[way]
        name = f"{size}×{size}×{channels}, {kernel_size}×{kernel_size}, stride {stride}"
        rows.append([name, count, *(f"{milliseconds[way]:.1f}" for way in WAYS)])
    rows.append(["all", sum(row[1] for row in rows), *(f"{totals[way]:.0f}" for way in WAYS)])
    yield table(["layer, processor ms", "layers", *WAYS], rows)


def layers(backbone, image_size):
    """Return {(size, channels, kernel size, stride): number of such layers}."""
    found = {}
    for layer in backbones.get(backbone).trunk(image_size).layers:
        if type(layer).__name__ == "DepthwiseConv2D":
            _, size, _, channels = layer.input.shape
            key = (size, channels, layer.kernel_size[0], layer.strides[0])
            found[key] = found.get(key, 0) + 1
    if not found:
        raise ValueError(f"The backbone {backbone!r} has no depthwise convolutions.")
    return found


def ways(size, channels, kernel_size, stride, batch_size, seed=0):
    """Return functions without arguments that return tensors, by the names above."""
    seeds = tf.random.split([seed, 0], 3)

    def normal(shape, seed):
        # A variable, so that nothing is computed beforehand.
        return tf.Variable(tf.random.stateless_normal(shape, seed))

    x = normal([batch_size, size, size, channels], seeds[0])
    kernel = normal([kernel_size, kernel_size, channels, 1], seeds[1])
    reduced = -(-size // stride)
    dy = normal([batch_size, reduced, reduced, channels], seeds[2])
    strides = [1, stride, stride, 1]
    stock = tf.raw_ops
    return {
        FORWARD: tf.function(lambda: tf.nn.depthwise_conv2d(x, kernel, strides, "SAME")),
        INPUT: tf.function(
            lambda: stock.DepthwiseConv2dNativeBackpropInput(
                input_sizes=x.shape,
                filter=kernel,
                out_backprop=dy,
                strides=strides,
                padding="SAME",
            )
        ),
        OTHER_INPUT: tf.function(lambda: input_gradient(dy, kernel, size, stride)),
        FILTER: tf.function(
            lambda: stock.DepthwiseConv2dNativeBackpropFilter(
                input=x,
                filter_sizes=kernel.shape,
                out_backprop=dy,
                strides=strides,
                padding="SAME",
            )
        ),
        OTHER_FILTER: tf.function(lambda: filter_gradient(x, dy, kernel_size, stride)),
    }


def input_gradient(dy, kernel, size, stride):
    """Return the input's gradient by forward convolutions, one for each phase of the stride.

    Output q meets input i through tap t = i + before − stride·q. The inputs of one phase, i mod
    stride, meet every stride-th tap only, at consecutive outputs: a convolution of `dy`, of
    stride 1, with a part of the kernel turned round. With stride 1 there is one phase.
    """
    before, _ = _padding(size, kernel.shape[0], stride)
    phases = range(stride)
    rows = [
        tf.stack(
            [_phase(dy, kernel, size, stride, before, (row, column)) for column in phases], axis=3
        )
        for row in phases
    ]
    joined = tf.stack(rows, axis=2)  # [B, size/stride, stride, size/stride, stride, C]
    return tf.reshape(joined, [-1, size, size, kernel.shape[2]])


def _phase(dy, kernel, size, stride, before, phase):
    first = [(offset + before) % stride for offset in phase]  # the least tap that is met
    part = kernel[first[0] :: stride, first[1] :: stride][::-1, ::-1]
    margins = []
    for axis in (0, 1):
        newest = (phase[axis] + before - first[axis]) // stride  # the output that tap meets
        outputs = dy.shape[1 + axis]
        margins.append([part.shape[axis] - 1 - newest, size // stride - outputs + newest])
    padded = tf.pad(dy, [[0, 0], *margins, [0, 0]])
    return tf.nn.depthwise_conv2d(padded, part, [1, 1, 1, 1], "VALID")


def filter_gradient(x, dy, kernel_size, stride):
    """Return the filter's gradient: for each tap, a sum of products of `dy` and a shifted input."""
    margin = _padding(x.shape[1], kernel_size, stride)
    padded = tf.pad(x, [[0, 0], margin, margin, [0, 0]])
    reach = stride * (dy.shape[1] - 1) + 1
    taps = [
        tf.reduce_sum(
            padded[:, row : row + reach : stride, column : column + reach : stride] * dy,
            axis=(0, 1, 2),
        )
        for row in range(kernel_size)
        for column in range(kernel_size)
    ]
    return tf.reshape(tf.stack(taps), [kernel_size, kernel_size, -1, 1])


def _padding(size, kernel_size, stride):
    """Return the rows that "SAME" adds before and after."""
    total = max((-(-size // stride) - 1) * stride + kernel_size - size, 0)
    return total // 2, total - total // 2
