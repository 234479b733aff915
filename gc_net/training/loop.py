"""The loop that all stages train with: epochs, callbacks, and exact resumption.

`keras.Model.fit` can go on at an epoch; this loop goes on at any step. What a step does depends
on the model's variables, the optimizer's, and the batch, which depends on (seed, epoch, step)
alone. So a checkpoint of the variables and of the position is all there is to keep.
"""

import math
import os

import keras
import numpy as np

from gc_net.stages.run_folder import RunError, writing
from gc_net.training.checkpoint import Checkpoints
from gc_net.training.devices import check_agreement, distributed, distributed_step, is_chief

CHECKPOINTS = "checkpoints"


def train(
    model,
    batches,
    *,
    epochs,
    steps_per_epoch,
    folder,
    checkpoint_steps=200,
    callbacks=(),
    epoch_logs=None,
    verbose=1,
):
    """Train a compiled model, from where an earlier call with the same `folder` was stopped.

    Args:
        model: A compiled Keras model whose variables are all made.
        batches: Function of `epoch`, `start_step`, `num_shards` and `shard_index` to the
            tf.data.Dataset of the rest of that epoch, as `pipeline.training_batches` gives it.
        epochs, steps_per_epoch: Length of the training.
        folder: Where checkpoints are kept. Only the chief of several workers writes.
        checkpoint_steps: Steps between two checkpoints; a quarter of them at an epoch's end.
        callbacks: Keras callbacks; they are told of batches and epochs as by `fit`.
        epoch_logs: Function without arguments, called after each epoch, to a dict of more values
            to log.
        verbose: 0 for silence.

    Raises:
        RunError: If the loss is no longer a number, or the disk is full.
    """
    checkpoints = Checkpoints(os.path.join(folder, CHECKPOINTS))
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    position = _restore(model, checkpoints)
    if position["finished"]:
        return
    start = saved = position["step"]
    if start and verbose:
        print(f"Going on from step {start:,} of {epochs * steps_per_epoch:,}.", flush=True)
    # Within an epoch, its metrics go on as well.
    metric_sums = position["metric_sums"] if start % steps_per_epoch else None
    take_step = distributed_step(model)
    model.stop_training = False
    callbacks = keras.callbacks.CallbackList(
        list(callbacks), model=model, verbose=verbose, epochs=epochs, steps=steps_per_epoch
    )
    with writing(folder):
        callbacks.on_train_begin()
    for epoch in range(start // steps_per_epoch, epochs):
        first = start % steps_per_epoch if epoch == start // steps_per_epoch else 0
        iterator = iter(distributed(batches, epoch=epoch, start_step=first))
        model.reset_metrics()
        callbacks.on_epoch_begin(epoch)
        for step in range(first, steps_per_epoch):
            callbacks.on_train_batch_begin(step)
            logs = take_step(iterator)
            if metric_sums:
                logs = _add_to_metrics(model, metric_sums)
                metric_sums = None
            callbacks.on_train_batch_end(step, _floats(logs))
            if model.stop_training:
                break
            done = epoch * steps_per_epoch + step + 1
            if step + 1 < steps_per_epoch and done - saved >= checkpoint_steps:
                _save(model, checkpoints, done)
                saved = done
        logs = _floats(model.get_metrics_result())
        logs["learning_rate"] = float(_numpy(model.optimizer.learning_rate))
        logs |= epoch_logs() if epoch_logs else {}
        with writing(folder):
            callbacks.on_epoch_end(epoch, logs)
        finished = epoch + 1 == epochs or model.stop_training
        if finished:
            callbacks.on_train_end(logs)
        if not math.isfinite(logs["loss"]):
            raise RunError(
                f"The loss was {logs['loss']} in epoch {epoch + 1}: training has diverged, and its "
                "weights are of no use. Lower the learning rate, and use another --work_dir."
            )
        # The stages of a small dataset have few steps, and would else be lost as a whole.
        if finished or done - saved >= checkpoint_steps / 4:
            _save(model, checkpoints, done, finished)
            saved = done
        if finished:
            break


def state(model):
    """Return all variables that the next step depends on, by number."""
    variables = [*model.variables, *model.optimizer.variables]
    unique = list({id(variable): variable for variable in variables}.values())
    # By number: Keras names nameless layers by a count that goes on from stage to stage.
    return {f"{number:05d}": variable for number, variable in enumerate(unique)}


def clear_checkpoints(folder):
    """Delete a training's checkpoints, once its result is written."""
    Checkpoints(os.path.join(folder, CHECKPOINTS)).clear()


def _numpy(value):
    # NumPy cannot read a variable that has a copy on each device by itself.
    return keras.ops.convert_to_numpy(value)


def _floats(logs):
    return {name: float(value) for name, value in logs.items()}


def _save(model, checkpoints, done, finished=False):
    # Every worker reads: a sum over the replicas of all workers takes all of them.
    arrays = {name: _numpy(variable) for name, variable in state(model).items()}
    sums = [_numpy(variable).tolist() for variable in model.metrics_variables]
    if is_chief():
        checkpoints.save(done, arrays, {"step": done, "finished": finished, "metric_sums": sums})


def _restore(model, checkpoints):
    """Load the newest checkpoint into the model, where there is one, and return its position."""
    found = checkpoints.load()
    arrays, position = found or ({}, {"step": 0, "finished": False})
    check_agreement("step of the newest checkpoint", position["step"])
    if found is None:
        return position
    variables = state(model)
    expected = {name: tuple(variable.shape) for name, variable in variables.items()}
    if expected != {name: array.shape for name, array in arrays.items()}:
        raise RunError(
            f"The checkpoints in {checkpoints.folder} are of another model. Delete that folder to "
            "start again, or use another --work_dir."
        )
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return position


def _add_to_metrics(model, sums):
    """Add what the metrics had summed up before the run was stopped.

    Keras makes the variables of some metrics only within the first step, so there is nothing to
    restore them to before it. All of them are sums.
    """
    for variable, value in zip(model.metrics_variables, sums, strict=True):
        variable.assign(_numpy(variable) + np.asarray(value, variable.dtype))
    return model.get_metrics_result()
