"""Several devices in one process, and several processes: the same training on each."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from gc_net.stages import runner
from gc_net.stages.run_folder import RunError
from gc_net.training import devices, loop
from gc_net.training.callbacks import read_log
from tests.training.samples import (
    FLAGS,
    ROOT,
    assert_same_weights,
    read_weights,
    small_config,
    small_options,
)

STEPS = 4


@pytest.fixture
def no_cluster(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)


def batches(epoch, start_step, num_shards, shard_index):
    def load(step):
        seed = tf.stack([tf.constant(epoch, tf.int64), step])
        images = tf.random.stateless_normal((8, 5), seed)
        rows = slice(shard_index * 8 // num_shards, (shard_index + 1) * 8 // num_shards)
        return images[rows], tf.argmax(images[:, :3], axis=1)[rows]

    return tf.data.Dataset.range(start_step, STEPS).map(load)


def trained(folder, strategy):
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model = keras.Sequential(
            [keras.Input((5,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(3)]
        )
        model.compile(
            optimizer=keras.optimizers.Adam(0.1),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=False,
        )
        loop.train(
            model, batches, num_steps=2 * STEPS, steps_per_pass=STEPS, folder=folder, verbose=0
        )
        return [np.asarray(weight) for weight in model.weights]


def test_two_replicas_take_the_same_steps_as_one_device(tmp_path, no_cluster):
    two = devices.make_strategy("auto")
    assert two.num_replicas_in_sync == 2
    one = devices.make_strategy("one")
    assert one.num_replicas_in_sync == 1
    expected = trained(str(tmp_path / "one"), one)
    for weight, other in zip(expected, trained(str(tmp_path / "two"), two), strict=True):
        np.testing.assert_allclose(weight, other, rtol=1e-4, atol=1e-6)


def test_a_batch_that_cannot_be_shared_is_refused(tmp_path, no_cluster):
    options = small_options(tmp_path, devices="auto")
    with pytest.raises(RunError, match=r"detector's batch of 7 images .* 2 devices.* e.g. 8"):
        runner.train(small_config(detector={"batch_size": 7}), options)


def test_a_batch_of_a_stage_that_is_not_trained_may_be_of_any_size(
    tmp_path, no_cluster, monkeypatch
):
    monkeypatch.setattr(loop, "train", lambda *arguments, **options: None)
    config = small_config(detector={"batch_size": 7})
    runner.train(config, small_options(tmp_path, devices="auto"), ["classifier"])
    assert (tmp_path / "classifier" / "model").exists()


def test_shapes_that_devices_cannot_share_are_refused_before_the_first_stage(tmp_path, no_cluster):
    own = {"generator": "learned", "generator_weights": "own"}
    config = small_config(generator={"batch_size": 5}, detector=own)
    with pytest.raises(RunError, match=r"generator's batch of 5 .* 2 devices"):
        runner.train(config, small_options(tmp_path, devices="auto"))
    assert not (tmp_path / "classifier").exists()


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return ports


def start_worker(index, ports, *arguments):
    """Start `tools.train` as worker `index` of a cluster on this machine."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    settings = {"cluster": cluster, "task": {"type": "worker", "index": index}}
    return subprocess.Popen(
        [sys.executable, "-m", "tools.train", *arguments],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_CONFIG": json.dumps(settings)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(workers, timeout=600):
    outputs = [worker.communicate(timeout=timeout)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], "\n".join(outputs)
    return outputs


def flags(work_dir):
    return (
        *FLAGS,
        "--seed=3",
        "--classifier_epochs=2",
        "--classifier_batch_size=6",
        "--classifier_num_folds=2",
        "--detector_epochs=2",
        "--detector_batch_size=6",
        "--checkpoint_steps=1",
        "--notensorboard",
        "--noevaluate",
        f"--work_dir={work_dir}",
    )


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory):
    """A run of one process with two replicas."""
    work_dir = tmp_path_factory.mktemp("mirrored")
    settings = small_config(classifier={"num_folds": 2})
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TF_CONFIG", raising=False)
        runner.train(settings, small_options(work_dir, devices="auto"))
    return work_dir


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one_with_two_replicas(mirrored, tmp_path):
    ports = free_ports(2)
    outputs = finish([start_worker(index, ports, *flags(tmp_path)) for index in range(2)])
    # The chief alone reports and writes.
    assert "Detector" in outputs[0] and "Epoch" not in outputs[1]
    for stage in ("classifier", "classifier_fold1", "detector"):
        expected, found = (read_log(run / stage / "log.csv") for run in (mirrored, tmp_path))
        assert len(expected) == len(found) == 2
        for row, other in zip(expected, found, strict=True):
            assert row["loss"] == pytest.approx(other["loss"], rel=1e-4)
    for name, array in read_weights(mirrored / "model").items():
        np.testing.assert_allclose(
            read_weights(tmp_path / "model")[name], array, rtol=1e-3, atol=1e-4, err_msg=name
        )


@pytest.mark.slow
def test_a_cluster_goes_on_after_a_worker_was_killed_and_restarted(mirrored, tmp_path):
    ports = free_ports(2)
    workers = [start_worker(index, ports, *flags(tmp_path)) for index in range(2)]
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("*/checkpoints/step-00000000[3-9].npz")):
        assert time.monotonic() < deadline and workers[0].poll() is None, finish(workers)
        time.sleep(0.01)
    os.kill(workers[1].pid, signal.SIGKILL)
    # The other one cannot go on alone: it ends by itself, or whoever started it ends it.
    try:
        workers[0].wait(30)
    except subprocess.TimeoutExpired:
        workers[0].kill()
    assert workers[0].wait(60) != 0
    workers[1].wait(60)
    ports = free_ports(2)
    outputs = finish([start_worker(index, ports, *flags(tmp_path)) for index in range(2)])
    assert "Resuming at step" in outputs[0]
    again = tmp_path / "again"
    finish([start_worker(index, ports, *flags(again)) for index in range(2)])
    assert_same_weights(tmp_path / "model", again / "model")
