"""A training step and a forward pass with the C library's allocator and with TensorFlow's own.

The C library gives blocks of more than 32 MB back to the system as soon as they are free. So every
step finds its feature maps on pages that the system has to clear once more. TensorFlow's own
best-fit allocator keeps them. TensorFlow reads the environment variable that chooses only once a
process. So each allocator has a process of its own, and these take turns.
"""

import contextlib
import functools
import multiprocessing
import os

from benchmarks.rounds import conditions, elapsed, in_turn, peak_megabytes, table

VARIABLE = "TF_CPU_ALLOCATOR_USE_BFC"
ALLOCATORS = {"C library": "false", "TensorFlow": "true"}


def report(
    *, backbones=("efficientnet_lite0",), image_sizes=(128,), batch_size=32, rounds=3, seed=0
):
    """Measure step and forward pass; arguments are those of `benchmarks.step`."""
    yield f"{conditions()}, batches of {batch_size}, seed {seed}, medians of {rounds} rounds"
    rows = []
    for backbone in backbones:
        for image_size in image_sizes:
            timings, peaks = measure(backbone, image_size, batch_size, rounds, seed)
            for what in ("step", "forward"):
                ours, theirs = f"{what}, TensorFlow", f"{what}, C library"
                rows.append(
                    [
                        backbone,
                        image_size,
                        what,
                        f"{batch_size / timings.seconds(theirs):.2f}",
                        f"{batch_size / timings.seconds(ours):.2f}",
                        f"{timings.ratio(theirs, ours):.2f}×",
                        f"{timings.processor_ratio(theirs, ours):.2f}×",
                        f"{peaks['C library']:.0f}",
                        f"{peaks['TensorFlow']:.0f}",
                    ]
                )
    yield table(
        [
            "backbone",
            "image size",
            "what",
            "C library, images/s",
            "TensorFlow, images/s",
            "faster",
            "in processor time",
            "C library, peak MB",
            "TensorFlow, peak MB",
        ],
        rows,
    )


def measure(backbone, image_size, batch_size, rounds, seed=0):
    """Return `Timings` of `"step, C library"` and so on, and {allocator: peak megabytes}."""
    with contextlib.ExitStack() as stack:
        processes = {
            name: stack.enter_context(_process(value)) for name, value in ALLOCATORS.items()
        }
        ways = {
            f"{what}, {name}": functools.partial(
                process.apply, _run, (what, backbone, image_size, batch_size, seed)
            )
            for what in ("step", "forward")
            for name, process in processes.items()
        }
        timings = in_turn(ways, rounds)
        peaks = {name: process.apply(peak_megabytes) for name, process in processes.items()}
    return timings, peaks


@contextlib.contextmanager
def _process(value):
    """Start one process with the environment variable set, and end it with the block."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = value
    try:
        pool = multiprocessing.get_context("spawn").Pool(1)
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
    with pool:
        yield pool


@functools.cache
def _ways(backbone, image_size, batch_size, seed):
    import tensorflow as tf

    from benchmarks.models import untrained_model
    from benchmarks.step import noise
    from gc_net import optimizers

    model = untrained_model(backbone, image_size)
    model.compile(optimizers.Adam(1e-4))
    model.optimizer.build(model.trainable_variables)
    images, labels = noise(model, batch_size, seed)
    return {
        "step": tf.function(lambda: model.train_step((images, labels))),
        "forward": tf.function(lambda: model(images)),
    }


def _run(what, *settings):
    return elapsed(_ways(*settings)[what])
