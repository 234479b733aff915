"""What a training step has to do, and how fast this machine can do it at best.

A step cannot be faster than its multiplications at the speed of a large product of matrices, nor
than its maps at the speed of memory. TensorFlow counts the operations of the step's graph. What it
reads and writes is counted here: inputs and outputs of each convolution, product and pass over a
map, as if nothing stayed in a cache.
"""

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.profiler import model_analyzer, option_builder

from benchmarks.models import untrained_model
from benchmarks.rounds import conditions, in_turn, table
from benchmarks.step import STEP, noise
from gc_net import optimizers

MATMUL, COPY = "product of matrices", "copy"
_SIDE, _COPIED = 2048, 2**28  # bytes; larger than any cache


def report(
    *,
    backbones=("efficientnet_lite0",),
    image_sizes=(128, 224),
    batch_size=16,
    precision="float32",
    rounds=3,
    seed=0,
):
    """Measure the machine and the step in turn.

    Args:
        precision: Name of the networks' dtype policy; the machine multiplies in the same.
        backbones, image_sizes, batch_size, rounds, seed: Those of `benchmarks.step`.
    """
    yield (
        f"{conditions()}, {precision}, batches of {batch_size}, seed {seed}, "
        f"medians of {rounds} rounds"
    )
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision)
    try:
        yield table(*_rows(backbones, image_sizes, batch_size, rounds, seed))
    finally:
        keras.config.set_dtype_policy(before)


def _rows(backbones, image_sizes, batch_size, rounds, seed):
    rows = []
    for backbone in backbones:
        for image_size in image_sizes:
            timings, operations, moved = measure(backbone, image_size, batch_size, rounds, seed)
            compute = 2 * _SIDE**3 / timings.processor_seconds(MATMUL)
            memory = 2 * _COPIED / timings.processor_seconds(COPY)
            step = timings.processor_seconds(STEP)
            rows.append(
                [
                    backbone,
                    image_size,
                    f"{operations / 1e9:.1f}",
                    f"{moved / 1e9:.2f}",
                    f"{compute / 1e9:.0f}",
                    f"{memory / 1e9:.1f}",
                    f"{operations / compute:.2f}",
                    f"{moved / memory:.2f}",
                    f"{step:.2f}",
                ]
            )
    header = ["backbone", "image size", "billion operations", "GB moved"]
    header += ["billion operations a second of a core", "GB a second of a core"]
    header += ["bound by operations, s", "by memory, s", "step, processor s"]
    return header, rows


def measure(backbone, image_size, batch_size, rounds, seed=0):
    """Return `Timings` of the step and of the machine, and the step's operations and bytes."""
    model = untrained_model(backbone, image_size)
    model.compile(optimizers.Adam(1e-4))
    model.optimizer.build(model.trainable_variables)
    data = noise(model, batch_size, seed)
    step = tf.function(lambda: model.train_step(data)).get_concrete_function()
    random = tf.random.stateless_uniform([_SIDE, _SIDE], [seed, 0])
    random = tf.cast(random, keras.config.dtype_policy().compute_dtype)
    product = tf.function(lambda: tf.reduce_max(random @ random))
    source, target = np.ones(_COPIED, np.uint8), np.empty(_COPIED, np.uint8)
    ways = {STEP: step, MATMUL: product, COPY: lambda: np.copyto(target, source)}
    return in_turn(ways, rounds), *cost(step.graph)


def cost(graph):
    """Return the multiplications and additions of a graph, and the bytes that it moves."""
    options = option_builder.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    operations = model_analyzer.profile(graph, options=options).total_float_ops
    moved = sum(
        _num_bytes(tensor)
        for operation in graph.get_operations()
        for tensor in (*operation.inputs, *operation.outputs)
        if operation.type not in ("Const", "Placeholder", "Identity", "Reshape", "ReadVariableOp")
    )
    return operations, moved


def _num_bytes(tensor):
    if tensor.dtype == tf.resource or not tensor.shape.is_fully_defined():
        return 0
    return tensor.shape.num_elements() * tensor.dtype.size
