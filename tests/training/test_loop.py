"""The loop: what is logged, and that a run stopped at any step ends as one that was not."""

import os
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

from gc_net.optimizers import averaging
from gc_net.stages.run_folder import RunError
from gc_net.training import loop
from gc_net.training.callbacks import CsvLog, read_log
from gc_net.training.checkpoint import read_checkpoint

STEPS, EPOCHS = 4, 3


class Killed(BaseException):
    """Not an error that anything may handle."""


class KillAt(keras.callbacks.Callback):
    def __init__(self, step):
        super().__init__()
        self.step = step
        self.seen = 0

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        if self.seen == self.step:
            raise Killed


def build(run_eagerly=True):
    """Return a model with all kinds of state: momentum, moving averages, dropout's seeds.

    Twelve steps of so small a network are faster than a graph is traced.
    """
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((5,)),
            keras.layers.Dense(4),
            keras.layers.BatchNormalization(momentum=0.5),
            keras.layers.Dropout(0.5, seed=2),
            keras.layers.Dense(3),
        ]
    )
    rate = keras.optimizers.schedules.CosineDecay(0.1, STEPS * EPOCHS)
    model.compile(
        optimizer=keras.optimizers.Adam(rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,
        run_eagerly=run_eagerly,
    )
    return model


def build_graph():
    return build(run_eagerly=False)


def batches(epoch, start_step, num_shards, shard_index):
    def load(step):
        seed = tf.stack([tf.constant(epoch, tf.int64), step])
        images = tf.random.stateless_normal((8, 5), seed)
        return images, tf.argmax(images[:, :3], axis=1)

    return tf.data.Dataset.range(start_step, STEPS).map(load).shard(num_shards, shard_index)


def train(folder, callbacks=(), checkpoint_steps=3, first=(), build=build, **arguments):
    folder.mkdir(exist_ok=True)
    model = build()
    arguments = {"num_steps": EPOCHS * STEPS, "steps_per_pass": STEPS, **arguments}
    loop.train(
        model,
        batches,
        folder=str(folder),
        checkpoint_steps=checkpoint_steps,
        callbacks=[*first, CsvLog(folder / "log.csv"), *callbacks],
        verbose=0,
        **arguments,
    )
    return model


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    model = train(folder)
    return {name: np.asarray(v) for name, v in loop.state(model).items()}, read_log(
        folder / "log.csv"
    )


# Before the first checkpoint, within and at the end of an epoch, and at the very end.
@pytest.mark.parametrize("step", [2, 4, 7, 8, 12])
def test_stopped_at_any_step_it_ends_the_same_bit_for_bit(tmp_path, uninterrupted, step):
    with pytest.raises(Killed):
        train(tmp_path, [KillAt(step)])
    model = train(tmp_path)
    expected, log = uninterrupted
    for name, variable in loop.state(model).items():
        assert np.asarray(variable).tobytes() == expected[name].tobytes(), name
    resumed = read_log(tmp_path / "log.csv")
    assert [row["epoch"] for row in resumed] == [0, 1, 2]
    for row, expected_row in zip(resumed, log, strict=True):
        assert row == pytest.approx(expected_row, rel=1e-5)


def test_in_a_graph_it_ends_the_same_as_well(tmp_path):
    whole = train(tmp_path / "whole", build=build_graph)
    with pytest.raises(Killed):
        train(tmp_path / "stopped", [KillAt(7)], build=build_graph)
    resumed = train(tmp_path / "stopped", build=build_graph)
    expected = loop.state(whole)
    for name, variable in loop.state(resumed).items():
        assert np.asarray(variable).tobytes() == np.asarray(expected[name]).tobytes(), name
    logs = [read_log(tmp_path / name / "log.csv") for name in ("whole", "stopped")]
    for row, expected_row in zip(*logs, strict=True):
        assert row == pytest.approx(expected_row, rel=1e-5)


def test_a_step_is_a_graph_unless_the_model_is_to_run_eagerly():
    def in_a_graph(model):
        traced = []
        step = model.train_step
        model.train_step = lambda data: traced.append(not tf.executing_eagerly()) or step(data)
        position = {"epoch": 0, "start_step": 0, "num_shards": 1, "shard_index": 0}
        loop.distributed_step(model)(iter(batches(**position)))
        return traced[0]

    assert in_a_graph(build_graph()) and not in_a_graph(build())


def test_sums_of_metrics_that_another_version_kept_are_left_out():
    model = build()
    images = np.zeros((8, 5), np.float32)
    model.fit(images, np.zeros(8, np.int32), batch_size=8, verbose=0)
    before = [np.asarray(variable) for variable in model.metrics_variables]
    loop._add_to_metrics(model, [1.0] * (len(before) + 2))
    loop._add_to_metrics(model, [[1.0, 2.0]] * len(before))
    for value, variable in zip(before, model.metrics_variables, strict=True):
        np.testing.assert_array_equal(value, variable)
    loop._add_to_metrics(model, [1.0] * len(before))
    for value, variable in zip(before, model.metrics_variables, strict=True):
        np.testing.assert_array_equal(value + 1, variable)


def test_a_stage_of_few_steps_goes_on_from_the_end_of_an_epoch(tmp_path):
    with pytest.raises(Killed):
        train(tmp_path, [KillAt(STEPS + 2)], checkpoint_steps=4 * STEPS)
    remaining = KillAt(2 * STEPS)
    with pytest.raises(Killed):
        train(tmp_path, [remaining], checkpoint_steps=4 * STEPS)
    assert remaining.seen == (EPOCHS - 1) * STEPS


def test_stopped_again_and_again_it_ends_the_same(tmp_path, uninterrupted):
    stops = 0
    while True:
        try:
            model = train(tmp_path, [KillAt(5)], checkpoint_steps=1)
            break
        except Killed:
            stops += 1
    assert stops == 2  # with 4 of 12 steps kept of each 5
    expected, _ = uninterrupted
    for name, variable in loop.state(model).items():
        assert np.asarray(variable).tobytes() == expected[name].tobytes(), name


def test_with_its_newest_checkpoint_damaged_it_ends_the_same(tmp_path, uninterrupted):
    with pytest.raises(Killed):
        train(tmp_path, [KillAt(7)], checkpoint_steps=2)
    newest = max((tmp_path / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:-100])
    model = train(tmp_path)
    expected, _ = uninterrupted
    for name, variable in loop.state(model).items():
        assert np.asarray(variable).tobytes() == expected[name].tobytes(), name


def test_a_finished_training_does_no_further_step(tmp_path, uninterrupted):
    train(tmp_path)
    model = train(tmp_path, [KillAt(1)])
    expected, _ = uninterrupted
    for name, variable in loop.state(model).items():
        assert np.asarray(variable).tobytes() == expected[name].tobytes(), name


def test_checkpoints_of_another_model_are_refused(tmp_path):
    train(tmp_path)
    other = keras.Sequential([keras.Input((5,)), keras.layers.Dense(2)])
    other.compile(loss="mse")
    with pytest.raises(RunError, match="belong to another model"):
        loop.train(other, batches, num_steps=1, steps_per_pass=1, folder=str(tmp_path), verbose=0)


def test_a_loss_that_is_no_number_ends_training_without_a_checkpoint(tmp_path):
    def spoiled(**position):
        return batches(**position).map(lambda images, labels: (images * np.inf, labels))

    model = build()
    with pytest.raises(RunError, match="loss was nan in epoch 1: training has diverged"):
        position = {"num_steps": 2 * STEPS, "steps_per_pass": STEPS, "folder": str(tmp_path)}
        loop.train(model, spoiled, **position, verbose=0)
    assert not (tmp_path / "checkpoints").exists()


def test_the_learning_rate_and_further_values_are_logged(tmp_path):
    class Adding(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs["extra"] = 7.0

    train(tmp_path, first=[Adding()])
    rows = read_log(tmp_path / "log.csv")
    assert [row["extra"] for row in rows] == [7.0] * EPOCHS
    # After the last step of each epoch, on the cosine.
    expected = [0.05 * (1 + np.cos(np.pi * (e + 1) / EPOCHS)) for e in range(EPOCHS)]
    assert [row["learning_rate"] for row in rows] == pytest.approx(expected, abs=1e-7)


class Signal(keras.callbacks.Callback):
    """Sends this process a signal within a step, as Ctrl-C does."""

    def __init__(self, number, step):
        super().__init__()
        self.number, self.step, self.seen = number, step, 0

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        if self.seen == self.step:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_writes_a_checkpoint_of_the_step_it_is_at(tmp_path, uninterrupted, number):
    handlers = [signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt) as caught:
        train(tmp_path, [Signal(number, 6)], checkpoint_steps=1000)
    assert caught.value.args == (number,)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000000006.npz"]
    assert [signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)] == handlers
    model = train(tmp_path)
    expected, _ = uninterrupted
    for name, variable in loop.state(model).items():
        assert np.asarray(variable).tobytes() == expected[name].tobytes(), name


def test_interrupted_in_its_last_step_it_is_finished_and_goes_no_further(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, [Signal(signal.SIGINT, EPOCHS * STEPS)])
    train(tmp_path, [KillAt(1)])  # does no step


def test_checkpoints_come_by_time_as_well(tmp_path):
    with pytest.raises(Killed):
        train(tmp_path, [KillAt(3)], checkpoint_steps=1000, checkpoint_minutes=0.0)
    newest = max((tmp_path / "checkpoints").iterdir())
    assert newest.name == "step-000000002.npz"


def test_weights_that_are_no_numbers_are_no_checkpoint(tmp_path):
    class Spoil(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1:
                self.model.layers[0].kernel.assign(np.full((5, 4), np.nan, np.float32))

    with pytest.raises(RunError, match=r"no longer a number at step 2: training has diverged"):
        train(tmp_path, [Spoil()], checkpoint_steps=1)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000000001.npz"]


def test_a_last_update_that_ruins_the_weights_is_noticed_and_the_good_ones_stay(tmp_path):
    class SpoilLast(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == EPOCHS - 1:  # the loss of all steps was a number
                kernel = self.model.layers[0].kernel
                kernel.assign(np.full(kernel.shape, np.inf, np.float32))

    with pytest.raises(RunError, match=r"no longer a number at step 12: training has diverged"):
        train(tmp_path, [SpoilLast()], checkpoint_steps=1)
    newest = max((tmp_path / "checkpoints").iterdir())
    assert newest.name == "step-000000011.npz"
    arrays, position = read_checkpoint(newest)
    assert not position["finished"]
    assert all(np.isfinite(array).all() for array in arrays.values())


# A length in steps, over passes that are shorter, or with a rest.


@pytest.mark.parametrize("num_steps, steps_per_epoch, rows", [(10, 8, 2), (3, 8, 1)])
def test_a_length_in_steps_ends_there_and_logs_longer_epochs(
    tmp_path, num_steps, steps_per_epoch, rows
):
    length = {"num_steps": num_steps, "steps_per_epoch": steps_per_epoch}
    model = train(tmp_path / "whole", **length)
    assert int(model.optimizer.iterations) == num_steps
    assert [row["epoch"] for row in read_log(tmp_path / "whole" / "log.csv")] == list(range(rows))
    with pytest.raises(Killed):
        train(tmp_path / "stopped", [KillAt(num_steps - 1)], checkpoint_steps=1, **length)
    again = train(tmp_path / "stopped", **length)
    for a, b in zip(model.variables, again.variables, strict=True):
        np.testing.assert_array_equal(a, b)
    whole, resumed = (read_log(tmp_path / name / "log.csv") for name in ("whole", "stopped"))
    assert [row["loss"] for row in resumed] == pytest.approx([row["loss"] for row in whole])


def averaged():
    model = build()
    optimizer = keras.optimizers.Adam(0.1, **averaging(0.8))
    model.compile(optimizer, loss=model.loss, jit_compile=False, run_eagerly=True)
    return model


def test_a_mean_of_the_weights_takes_their_place_at_the_end_also_when_resumed(tmp_path):
    class Mean(keras.callbacks.Callback):
        mean = None

        def on_train_batch_end(self, batch, logs=None):
            kernel = np.asarray(self.model.layers[0].kernel)
            self.mean = kernel if self.mean is None else 0.8 * self.mean + 0.2 * kernel

    watch = Mean()
    model = train(tmp_path / "whole", [watch], build=averaged)
    np.testing.assert_allclose(model.layers[0].kernel, watch.mean, rtol=1e-4)
    with pytest.raises(Killed):
        train(tmp_path / "killed", [KillAt(7)], build=averaged)
    resumed = train(tmp_path / "killed", build=averaged)
    for a, b in zip(model.variables, resumed.variables, strict=True):
        np.testing.assert_array_equal(a, b)
