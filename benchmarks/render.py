"""Pairs of coefficients and masks, as a learned generator is trained on, beside OpenCV's.

How much faster than OpenCV can it get? A float32 mask of 224 × 224 pixels is 4 · 224² = 200,704
bytes, all of which have to be written to memory, however they are computed. Fifty times OpenCV's
speed would leave a fiftieth of OpenCV's time for that. OpenCV does little else than write them, so
it does not take fifty times as long as the writing. The report ends with that bound, from the rate
at which a core copies memory in the same run. The bound favours us, since it lets the writing have
the rate of reading and writing together.
"""

import cv2
import numpy as np
import tensorflow as tf

from benchmarks.rounds import conditions, in_turn, table
from gc_net import shapes

CALLS = "one OpenCV call a sample"
SAMPLES = "coefficients alone"
MASKS = "masks alone, plain graph"
COMPILED = "masks alone, compiled graph"
FILL = "filling the same memory with ones"
_CALLS = 8  # a turn, since one batch takes a few milliseconds only
_SHIFT = 4  # OpenCV takes coordinates in sixteenths of a pixel


def report(*, image_sizes=(48, 224), batch_size=128, rounds=5, seed=0):
    """Measure every shape; 48 and 224 pixels are what the two networks are trained at.

    Args:
        image_sizes: Sides of the masks.
        batch_size: Masks a batch.
        rounds: How often each way has its turn.
        seed: Of the coefficients.
    """
    yield f"{conditions()}, batches of {batch_size}, seed {seed}, medians of {rounds} rounds"
    measured = {
        (shape, image_size): measure(shape, image_size, batch_size, rounds, seed)
        for shape in shapes.SHAPES
        for image_size in image_sizes
    }
    rows = [
        [
            shape.replace("_", " "),
            image_size,
            name,
            f"{batch_size / timings.seconds(name):,.0f}",
            f"{1e6 * timings.processor_seconds(name) / batch_size:.1f}",
            f"{timings.processor_ratio(CALLS, name):.2f}×",
        ]
        for (shape, image_size), timings in measured.items()
        for name in timings.wall
    ]
    header = ["shape", "image size", "way", "images/s", "processor µs an image"]
    yield table([*header, f"× {CALLS}"], rows)
    largest = max(image_sizes)
    slowest = max(measured[shape, largest].processor_seconds(CALLS) for shape in shapes.SHAPES)
    yield bound(largest, slowest / batch_size, copy_rate(rounds))


def bound(image_size, opencv_seconds, bytes_a_second):
    """Return a line that says how many times as fast as OpenCV a mask can be made at most.

    Args:
        image_size: Side of the mask.
        opencv_seconds: What OpenCV takes for it.
        bytes_a_second: What memory takes.
    """
    size = np.dtype(np.float32).itemsize * image_size**2
    seconds = size / bytes_a_second
    return (
        f"One core reads and writes {bytes_a_second / 1e9:.1f} GB/s. At that rate the {size:,} "
        f"bytes of a float32 mask of {image_size} pixels are written in {1e6 * seconds:.1f} µs; "
        f"OpenCV's slowest shape takes {1e6 * opencv_seconds:.1f} µs: at most "
        f"{opencv_seconds / seconds:.1f} times as fast. 50 times would need "
        f"{50e-9 * size / opencv_seconds:,.0f} GB/s."
    )


def copy_rate(rounds, megabytes=256):
    """Return the bytes a second that one core reads and writes in copying an array.

    Args:
        rounds: How often it is copied.
        megabytes: Size of the array, far more than fits into a core's cache.
    """
    source = np.ones(megabytes * 2**20, np.uint8)
    target = np.empty_like(source)
    timings = in_turn({"copy": lambda: np.copyto(target, source)}, rounds)
    return 2 * source.nbytes / timings.processor_seconds("copy")


def measure(shape, image_size, batch_size, rounds, seed=0):
    """Return the `Timings` of one batch, made in each way.

    Not by way of tf.data: its threads work ahead, and what they do for one way would be counted
    in the turns of the others.
    """
    shape = shapes.get(shape)
    coefficients = shape.sample(batch_size, (seed, 0), "full")
    points = _points(shape, coefficients, image_size)
    step = tf.Variable(0, dtype=tf.int32)
    memory = np.empty((batch_size, image_size, image_size, 1), np.float32)

    @tf.function
    def samples():
        return shape.sample(batch_size, tf.stack([seed, step]), "full")

    @tf.function
    def masks(coefficients):
        return shape.masks(coefficients, image_size, image_size)

    compiled = tf.function(masks.python_function, jit_compile=True)
    return in_turn(
        {
            CALLS: lambda: np.stack([draw(outline, image_size) for outline in points]),
            SAMPLES: samples,
            MASKS: lambda: masks(coefficients),
            COMPILED: lambda: compiled(coefficients),
            FILL: lambda: memory.fill(1),
        },
        rounds,
        calls=_CALLS,
    )


def draw(points, image_size):
    """Return a mask [S, S, 1] by one call to OpenCV; `points` [P, 2] are in sixteenths."""
    mask = np.zeros((image_size, image_size, 1), np.float32)
    return cv2.fillPoly(mask, [points], 1.0, cv2.LINE_8, _SHIFT)


def _points(shape, coefficients, image_size):
    # OpenCV puts the centre of the first pixel at 0, this package at ½.
    outlines = np.asarray(shape.outline(coefficients)) * image_size - 0.5
    return np.rint(outlines * 2**_SHIFT).astype(np.int32)  # [B, P, 2]
