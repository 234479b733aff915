"""The loop: what is logged, and that a run stopped at any step ends as one that was not."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gc_net.stages.run_folder import RunError
from gc_net.training import loop
from gc_net.training.callbacks import CsvLog, read_log

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


def build():
    """Return a model with all kinds of state: momentum, moving averages, dropout's seeds."""
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
    )
    return model


def batches(epoch, start_step, num_shards, shard_index):
    def load(step):
        seed = tf.stack([tf.constant(epoch, tf.int64), step])
        images = tf.random.stateless_normal((8, 5), seed)
        return images, tf.argmax(images[:, :3], axis=1)

    return tf.data.Dataset.range(start_step, STEPS).map(load).shard(num_shards, shard_index)


def train(folder, callbacks=(), checkpoint_steps=3, **arguments):
    folder.mkdir(exist_ok=True)
    model = build()
    loop.train(
        model,
        batches,
        epochs=EPOCHS,
        steps_per_epoch=STEPS,
        folder=str(folder),
        checkpoint_steps=checkpoint_steps,
        callbacks=[CsvLog(folder / "log.csv"), *callbacks],
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
    with pytest.raises(RunError, match="of another model"):
        loop.train(other, batches, epochs=1, steps_per_epoch=1, folder=str(tmp_path), verbose=0)


def test_a_loss_that_is_no_number_ends_training_without_a_checkpoint(tmp_path):
    def spoiled(**position):
        return batches(**position).map(lambda images, labels: (images * np.inf, labels))

    model = build()
    with pytest.raises(RunError, match="loss was nan in epoch 1: training has diverged"):
        loop.train(model, spoiled, epochs=2, steps_per_epoch=STEPS, folder=str(tmp_path), verbose=0)
    assert not (tmp_path / "checkpoints").exists()


def test_the_learning_rate_and_further_values_are_logged(tmp_path):
    train(tmp_path, epoch_logs=lambda: {"extra": 7.0})
    rows = read_log(tmp_path / "log.csv")
    assert [row["extra"] for row in rows] == [7.0] * EPOCHS
    # After the last step of each epoch, on the cosine.
    expected = [0.05 * (1 + np.cos(np.pi * (e + 1) / EPOCHS)) for e in range(EPOCHS)]
    assert [row["learning_rate"] for row in rows] == pytest.approx(expected, abs=1e-7)
