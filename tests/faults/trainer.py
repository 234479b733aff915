"""Small trainings in processes of their own that start at once: forked off one that has TensorFlow.

What makes a process slow to start is importing; fifty kills would take minutes of it.
"""

import multiprocessing

from gc_net.stages.runner import train
from tests.training.samples import small_config, small_options

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.faults.trainer"])


def train_in_place(work_dir, stages=None):
    """Train a run whose every step is a checkpoint, or resume it."""
    epochs = {"epochs": 3, "batch_size": 4}
    config = small_config(classifier=epochs, detector=epochs)
    options = small_options(work_dir, checkpoint_steps=1, cache_dir=f"{work_dir}/cache")
    train(config, options, stages)


def started(work_dir, stages=None):
    """Return a process, begun, that trains in `work_dir`."""
    process = _context.Process(target=train_in_place, args=(str(work_dir), stages))
    process.start()
    return process
