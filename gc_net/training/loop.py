"""The training loop of all stages: epochs, callbacks, and exact resumption.

`keras.Model.fit` can resume at an epoch; this loop resumes at any step. A step depends on the
model's variables, the optimizer's variables, and the batch. The batch depends only on (seed, pass,
step). So a checkpoint of the variables and of the position is enough.
"""

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import keras
import numpy as np
import tensorflow as tf

from gc_net.run_files import RunError, explained_write_errors
from gc_net.training.checkpoint import Checkpoints
from gc_net.training.devices import (
    check_agreement,
    distributed,
    distributed_step,
    is_chief,
    is_one_process,
)

CHECKPOINTS = "checkpoints"


def train(
    model: keras.Model,
    batches: Callable[..., tf.data.Dataset],
    *,
    num_steps: int,
    steps_per_pass: int,
    folder: str,
    steps_per_epoch: int | None = None,
    checkpoint_steps: int = 200,
    checkpoint_minutes: float = math.inf,
    callbacks: Iterable[keras.callbacks.Callback] = (),
    verbose: int = 1,
) -> None:
    """Train a compiled model; resume if an earlier call with the same `folder` was stopped.

    Args:
        model: A compiled Keras model whose variables are all made.
        batches: Function of `epoch`, `start_step`, `num_shards` and `shard_index` to the
            tf.data.Dataset of the rest of that pass, like `pipeline.training_batches`.
        num_steps: Length of the training.
        steps_per_pass: Number of batches of a pass.
        folder: Where checkpoints are kept. Only the chief of several workers writes.
        steps_per_epoch: Steps of an epoch for callbacks; a pass if None.
        checkpoint_steps: Steps between two checkpoints; at an epoch's end, a quarter is enough.
        checkpoint_minutes: Minutes between two checkpoints, if that comes first.
        callbacks: Keras callbacks; they are called as by `fit`.
        verbose: 0 for silence.

    Raises:
        RunError: If the loss or a weight is no longer a number, or the disk is full.
        KeyboardInterrupt: If it is interrupted, after a last checkpoint.
    """
    checkpoints = Checkpoints(os.path.join(folder, CHECKPOINTS))
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    position = _restore(model, checkpoints)
    if position["finished"]:
        return
    steps_per_epoch = steps_per_epoch or steps_per_pass
    epochs = math.ceil(num_steps / steps_per_epoch)
    start = done = position["step"]
    if start and verbose:
        print(f"Resuming at step {start:,} of {num_steps:,}.", flush=True)
    # Within an epoch, its metrics are resumed as well.
    metric_sums = position["metric_sums"] if start % steps_per_epoch else None
    take_step = distributed_step(model)
    model.stop_training = False
    callbacks = keras.callbacks.CallbackList(
        list(callbacks), model=model, verbose=verbose, epochs=epochs, steps=steps_per_epoch
    )
    due = _Due(checkpoint_steps, checkpoint_minutes, start)
    iterator = None
    with explained_write_errors(folder):
        callbacks.on_train_begin()
    with _interruptions() as interruption:
        for epoch in range(start // steps_per_epoch, epochs):
            first, end = epoch * steps_per_epoch, min((epoch + 1) * steps_per_epoch, num_steps)
            model.reset_metrics()
            callbacks.on_epoch_begin(epoch)
            while done < end and not model.stop_training:
                number, step = divmod(done, steps_per_pass)
                if iterator is None or step == 0:
                    iterator = iter(distributed(batches, epoch=number, start_step=step))
                callbacks.on_train_batch_begin(done - first)
                logs = take_step(iterator)
                if metric_sums:
                    logs = _add_to_metrics(model, metric_sums)
                    metric_sums = None
                callbacks.on_train_batch_end(done - first, _floats(logs))
                done += 1
                stopped = interruption and done < num_steps
                if stopped or (done < end and due(done) and not model.stop_training):
                    _save(model, checkpoints, done)
                if stopped:
                    raise KeyboardInterrupt(*interruption)
            logs = _floats(model.get_metrics_result())
            logs["learning_rate"] = float(_numpy(model.optimizer.learning_rate))
            with explained_write_errors(folder):
                callbacks.on_epoch_end(epoch, logs)
            finished = done == num_steps or model.stop_training
            if finished:
                callbacks.on_train_end(logs)
            if not math.isfinite(logs["loss"]):
                raise _diverged(f"The loss was {logs['loss']} in epoch {epoch + 1}")
            if finished:
                # If the optimizer keeps a mean of the weights, that is the result.
                model.optimizer.finalize_variable_values(model.trainable_variables)
            # A stage of a small dataset has few steps, and would otherwise be lost as a whole.
            if finished or due(done, part=0.25):
                _save(model, checkpoints, done, finished)
            if finished:
                break
    if interruption:  # during the last step
        raise KeyboardInterrupt(*interruption)


class _Due:
    """Says when the next checkpoint is due.

    Args:
        steps, minutes: Distance between checkpoints.
        start: Step of the last one.
    """

    def __init__(self, steps, minutes, start):
        self.steps = steps
        # Clocks of several processes differ, and all of them take part in a checkpoint.
        self.seconds = 60 * minutes if is_one_process() else math.inf
        self.saved, self.time = start, time.monotonic()

    def __call__(self, done, part=1.0):
        """Return whether one is due after `done` steps, at `part` of the distance, and note it."""
        now = time.monotonic()
        if done - self.saved < part * self.steps and now - self.time < self.seconds:
            return False
        self.saved, self.time = done, now
        return True


@contextlib.contextmanager
def _interruptions() -> Iterator[list[int]]:
    """Collect the first SIGINT or SIGTERM within the `with` block; the next one ends the process.

    After the first, the current step ends and a checkpoint is written.
    """
    received = []
    # Signals arrive only in the main thread; and one of several processes cannot stop alone.
    if threading.current_thread() is not threading.main_thread() or not is_one_process():
        yield received
        return

    def receive(number, frame):
        received.append(number)
        restore()

    def restore():
        for number, handler in before.items():
            signal.signal(number, handler)

    kinds = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, receive) for number in kinds}
    try:
        yield received
    finally:
        restore()


def state(model: keras.Model) -> dict[str, keras.Variable]:
    """Return all variables that the next step depends on, by number."""
    variables = [*model.variables, *model.optimizer.variables]
    unique = list({id(variable): variable for variable in variables}.values())
    # By number, because Keras names nameless layers by a count that continues over stages.
    return {f"{number:05d}": variable for number, variable in enumerate(unique)}


def clear_checkpoints(folder: str) -> None:
    """Delete a training's checkpoints, once its result is written."""
    Checkpoints(os.path.join(folder, CHECKPOINTS)).clear()


def _numpy(value):
    # NumPy itself cannot read a variable with a copy on each device.
    return keras.ops.convert_to_numpy(value)


def _floats(logs):
    return {name: float(value) for name, value in logs.items()}


def _save(model, checkpoints, done, finished=False):
    # Every worker reads, because a sum over all replicas needs all workers.
    arrays = {name: _numpy(variable) for name, variable in state(model).items()}
    if not all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f"):
        raise _diverged(f"A weight was no longer a number at step {done:,}")
    sums = [_numpy(variable).tolist() for variable in model.metrics_variables]
    if is_chief():
        checkpoints.save(done, arrays, {"step": done, "finished": finished, "metric_sums": sums})


def _diverged(what):
    return RunError(
        f"{what}: training has diverged, and its weights are useless. Lower the learning rate, "
        "and use another --work_dir."
    )


def _restore(model, checkpoints):
    """Load the newest checkpoint, if any, into the model, and return its position."""
    found = checkpoints.load()
    arrays, position = found or ({}, {"step": 0, "finished": False})
    check_agreement("step of the newest checkpoint", position["step"])
    if found is None:
        return position
    variables = state(model)
    expected = {name: tuple(variable.shape) for name, variable in variables.items()}
    if expected != {name: array.shape for name, array in arrays.items()}:
        raise RunError(
            f"The checkpoints in {checkpoints.folder} belong to another model. Delete that folder "
            "to start again, or use another --work_dir."
        )
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return position


def _add_to_metrics(model, sums):
    """Add the sums that the metrics had before the run was stopped.

    Keras makes the variables of some metrics only within the first step, so they cannot be restored
    before it. All of them are sums. A version with other metrics has left other sums: the log of
    this one epoch then begins where the run was stopped.
    """
    variables = model.metrics_variables
    if [np.shape(value) for value in sums] == [tuple(variable.shape) for variable in variables]:
        for variable, value in zip(variables, sums, strict=True):
            variable.assign(_numpy(variable) + np.asarray(value, variable.dtype))
    return model.get_metrics_result()
