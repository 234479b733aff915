"""One device, several devices, or several machines: the training is the same."""

import functools
import os
from collections.abc import Callable, Iterable, Iterator

import keras
import tensorflow as tf

from gc_net.run_files import RunError


def make_strategy(devices: str = "auto") -> tf.distribute.Strategy:
    """Return the `tf.distribute.Strategy` to train with.

    Args:
        devices: `"auto"` for all machines that the environment variable `TF_CONFIG` names, or else
            all GPUs, or else all logical CPUs; `"one"` for TensorFlow's choice of a single device.
    """
    if devices == "one":
        return tf.distribute.get_strategy()
    if "cluster" in os.environ.get("TF_CONFIG", ""):
        return tf.distribute.MultiWorkerMirroredStrategy()
    for kind in ("GPU", "CPU"):
        found = tf.config.list_logical_devices(kind)
        if len(found) > 1:
            return _mirrored(tuple(device.name for device in found))
        if found:
            break
    return tf.distribute.get_strategy()


@functools.cache
def _mirrored(names):
    # One for the whole process, because the reductions of two of them would interfere.
    return tf.distribute.MirroredStrategy(names)


def is_chief() -> bool:
    """Return whether this process writes the files: always, unless it is one of many workers."""
    if is_one_process():
        return True
    resolver = tf.distribute.get_strategy().cluster_resolver
    return resolver.task_type in (None, "chief") or (
        resolver.task_type == "worker"
        and resolver.task_id == 0
        and "chief" not in resolver.cluster_spec().jobs
    )


def is_one_process() -> bool:
    """Return whether this process trains alone, on any number of devices."""
    resolver = tf.distribute.get_strategy().cluster_resolver
    return resolver is None or not resolver.cluster_spec().jobs


def num_replicas() -> int:
    """Return how many devices share each batch."""
    return tf.distribute.get_strategy().num_replicas_in_sync


def check_batch_size(name: str, batch_size: int) -> None:
    """Raise if a batch cannot be shared evenly by the devices."""
    replicas = num_replicas()
    if batch_size % replicas:
        lower = batch_size - batch_size % replicas
        raise RunError(
            f"The {name}'s batch of {batch_size} images cannot be shared by {replicas} devices. "
            f"Choose a multiple of {replicas}, e.g. {lower + replicas}."
        )


def replica_batch_size(batch_size: int) -> int:
    """Return the number of a batch's images on each device."""
    return batch_size // num_replicas()


def check_agreement(name: str, value: int) -> None:
    """Raise if workers read different values of `name` from what should be one work_dir."""
    if num_replicas() == 1:
        return
    total = int(_sum_up(tf.constant(int(value), tf.int64)))
    if total != int(value) * num_replicas():
        raise RunError(
            f"The workers disagree on the {name}: it is {int(value)} here. All of them must use "
            "one --work_dir on a disk that they share. If they do, start them again."
        )


@tf.function(autograph=False)
def _sum_up(value):
    strategy = tf.distribute.get_strategy()
    return strategy.reduce("SUM", strategy.run(tf.identity, args=(value,)), axis=None)


def barrier() -> None:
    """Wait until all workers have reached this call."""
    check_agreement("barrier", 0)


def distributed(batches: Callable[..., tf.data.Dataset], **position: int) -> Iterable:
    """Return one epoch of batches, each shared by all replicas of all workers.

    Args:
        batches: Function to a tf.data.Dataset, see `gc_net.training.loop.train`.
        position: The epoch and the step to start at.
    """
    strategy = tf.distribute.get_strategy()
    replicas = strategy.num_replicas_in_sync
    if replicas == 1:
        return batches(**position, num_shards=1, shard_index=0)

    def worker_batches(context):
        local = replicas // context.num_input_pipelines
        first = context.input_pipeline_id * local
        shards = [
            batches(**position, num_shards=replicas, shard_index=first + index)
            for index in range(local)
        ]
        return alternate(shards)

    return strategy.distribute_datasets_from_function(worker_batches)


def distributed_step(model: keras.Model) -> Callable[[Iterator], dict]:
    """Return a function of an iterator that trains on its next batch and returns the logs.

    It does the same as the train function of Keras, which cannot reduce scalar logs of several
    workers. A model that was compiled with `run_eagerly` has no graph here either.
    """
    strategy = tf.distribute.get_strategy()

    def step(iterator):
        logs = strategy.run(model.train_step, args=(iterator.get_next(),))
        return {name: strategy.reduce("MEAN", value, axis=None) for name, value in logs.items()}

    if model.run_eagerly:
        return step
    return tf.function(step, autograph=False, reduce_retracing=True)


def alternate(datasets: list[tf.data.Dataset], start: int = 0) -> tf.data.Dataset:
    """Return a dataset that takes one batch of each in turn, beginning with number `start`."""
    if len(datasets) == 1:
        return datasets[0]
    turns = tf.data.Dataset.range(start, start + len(datasets)).map(lambda n: n % len(datasets))
    return tf.data.Dataset.choose_from_datasets(datasets, turns.repeat())


def set_up(seed: int, mixed_precision: bool = False, deterministic: bool = False) -> None:
    """Set what holds for the whole process, before any network is built."""
    keras.utils.set_random_seed(seed % 2**32)
    if deterministic:
        tf.config.experimental.enable_op_determinism()
    half = "mixed_float16" if tf.config.list_physical_devices("GPU") else "mixed_bfloat16"
    keras.config.set_dtype_policy(half if mixed_precision else "float32")
