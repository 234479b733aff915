"""The CSV log, TensorBoard's event files and the progress bar."""

import glob
import io
import math
import os

import cv2
import keras
import numpy as np
import pytest
import tensorflow as tf

import gc_net
from gc_net.figures import drawing
from gc_net.generators.model import ModelGenerator
from gc_net.training.callbacks import CsvLog, ImageSummaries, ProgressBar, Scalars, read_log

SIZE = 32


def run_epochs(callback, rows, first=0):
    """Tell a callback of epochs as `fit(initial_epoch=first)` would."""
    callback.on_train_begin()
    for epoch, logs in enumerate(rows, first):
        callback.on_epoch_begin(epoch)
        callback.on_epoch_end(epoch, logs)
    callback.on_train_end()


def logs_of(epoch):
    return {"loss": 1 / (epoch + 3), "area_loss": float(np.float32(0.1 * epoch))}


# The CSV log.


def test_a_log_reads_back_as_it_was_written(tmp_path):
    path = tmp_path / "log.csv"
    rows = [{"loss": 0.1, "odd, name": float(np.float32(1 / 3))}, {"loss": math.nan}]
    run_epochs(CsvLog(path), rows)
    assert path.read_text().splitlines()[0] == 'epoch,loss,"odd, name"'
    first, second = read_log(path)
    assert first["epoch"] == 0 and first["loss"] == 0.1
    assert np.float32(first["odd, name"]) == np.float32(1 / 3)
    assert math.isnan(second["loss"]) and "odd, name" not in second


@pytest.mark.parametrize("resumed_at", [0, 1, 3, 4])
def test_epochs_that_are_trained_again_are_not_repeated(tmp_path, resumed_at):
    path = tmp_path / "log.csv"
    run_epochs(CsvLog(path), [logs_of(epoch) for epoch in range(4)])
    again = [{"loss": 9.0} for _ in range(resumed_at, 6)]
    run_epochs(CsvLog(path), again, first=resumed_at)
    rows = read_log(path)
    assert [row["epoch"] for row in rows] == list(range(6))
    assert [row["loss"] == 9.0 for row in rows] == [epoch >= resumed_at for epoch in range(6)]
    assert [file.name for file in tmp_path.iterdir()] == ["log.csv"]


def test_any_cut_through_the_file_is_repaired(tmp_path):
    whole, cut, expected = (tmp_path / name for name in ("whole.csv", "cut.csv", "expected.csv"))
    run_epochs(CsvLog(whole), [logs_of(epoch) for epoch in range(3)])
    text = whole.read_bytes()
    ends = [position + 1 for position, byte in enumerate(text) if byte == ord("\n")]
    for length in range(len(text) + 1):
        cut.write_bytes(text[:length])
        complete = max(0, sum(end <= length for end in ends) - 1)  # without the header
        assert [row["epoch"] for row in read_log(cut)] == list(range(complete))
        run_epochs(CsvLog(cut), [logs_of(complete)], first=complete)
        run_epochs(CsvLog(expected), [logs_of(epoch) for epoch in range(complete + 1)])
        assert cut.read_bytes() == expected.read_bytes()


def test_lines_that_make_no_sense_are_left_out(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("epoch,loss\n0,0.5\n1,0.4,7\nrubbish\n1,x\n,0.3\n2,0.2\n2,0.1\n")
    assert read_log(path) == [{"epoch": 0, "loss": 0.5}, {"epoch": 2, "loss": 0.1}]


def test_new_columns_join_the_old_ones(tmp_path):
    path = tmp_path / "log.csv"
    run_epochs(CsvLog(path), [{"loss": 1.0, "epsilon": 0.1}])
    run_epochs(CsvLog(path), [{"loss": 0.5, "corloc": 0.6}], first=1)
    assert path.read_text() == "epoch,loss,epsilon,corloc\n0,1,0.1,\n1,0.5,,0.6\n"


def test_a_failed_write_leaves_the_log_of_the_epoch_before(tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    log = CsvLog(path)
    log.on_train_begin()
    log.on_epoch_begin(0)
    log.on_epoch_end(0, {"loss": 1.0})

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        log.on_epoch_end(1, {"loss": 0.5})
    assert read_log(path) == [{"epoch": 0, "loss": 1.0}]


# TensorBoard.


def events(folder):
    """Return (step, tag, plugin, value) of all values in a folder's event files."""
    found = []
    for path in sorted(glob.glob(os.path.join(folder, "events.out.tfevents.*"))):
        for record in tf.data.TFRecordDataset(path):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                plugin = value.metadata.plugin_data.plugin_name
                found.append((event.step, value.tag, plugin, tf.make_ndarray(value.tensor)))
    return found


def test_scalars_are_written_for_every_log_and_epoch(tmp_path):
    folder = tmp_path / "not" / "there" / "yet"
    rows = [{"loss": 2.5, "val_accuracy": 0.25}, {"loss": math.nan, "val_accuracy": 0.5}]
    run_epochs(Scalars(folder), rows, first=3)
    found = events(folder)
    assert [entry[:3] for entry in found] == [
        (step, tag, "scalars") for step in (3, 4) for tag in ("loss", "val_accuracy")
    ]
    np.testing.assert_array_equal([entry[3] for entry in found], [2.5, 0.25, math.nan, 0.5])


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    return gc_net.GCNet(
        gc_net.Detector("tiny", "rotated_ellipse", SIZE, head="position", weights=None),
        ModelGenerator("rotated_ellipse", SIZE, epsilon=0.001),
        gc_net.Classifier("tiny", 3, SIZE, weights=None),
    )


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (3, SIZE, SIZE, 3), np.uint8)


def test_pictures_show_what_the_model_does(model, images):
    summaries = ImageSummaries("unused", images, longer_side=SIZE)
    summaries.set_model(model)
    shown = summaries.pictures()
    prediction = model(tf.cast(images, tf.float32))
    masks = np.asarray(model.shape.masks(prediction["coefficients"], SIZE, SIZE)) > 0.5
    for index, pictures in enumerate(shown):
        inside, image = masks[index, ..., 0], images[index]
        assert (pictures["mask"][inside] > 200).mean() > 0.98
        assert (pictures["mask"][~inside] < 55).mean() > 0.98
        # Hidden pixels take the normalizer's mean colour, 127 for the tiny backbone.
        expected = np.where(inside[..., None], image, 127)
        assert (np.abs(pictures["object"] - expected.astype(int)) <= 2).mean() > 0.95
        expected = np.where(inside[..., None], 127, image)
        assert (np.abs(pictures["background"] - expected.astype(int)) <= 2).mean() > 0.95
        drawn = drawing.draw_prediction(
            image,
            outline_rel=np.asarray(model.shape.outline(prediction["coefficients"]))[index],
            box_rel_xyxy=np.asarray(prediction["boxes"])[index],
        )
        np.testing.assert_array_equal(pictures["prediction"], drawn)


def test_a_strip_per_image_is_written_each_epoch(model, images, tmp_path):
    summaries = ImageSummaries(tmp_path, images, captions=["a", "b", "c"], longer_side=48)
    summaries.set_model(model)
    run_epochs(summaries, [{"loss": 1.0}, {"loss": 0.5}])
    found = events(tmp_path)
    assert [entry[:3] for entry in found] == [
        (step, tag, plugin)
        for step in (0, 1)
        for tag, plugin in [("loss", "scalars")] + [(f"images/{c}", "images") for c in "abc"]
    ]
    width, height, png = found[1][3]
    strip = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    assert (int(width), int(height)) == (4 * 48, 48) and strip.shape == (48, 4 * 48, 3)
    expected = np.concatenate(list(summaries.pictures()[0].values()), axis=1)
    np.testing.assert_array_equal(strip, expected)


def test_images_of_the_wrong_shape_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"Received: images.shape=\(8, 8, 3\)"):
        ImageSummaries(tmp_path, np.zeros((8, 8, 3)))


# The progress bar.

DETECTOR_LOGS = {
    "loss": 5.4321,
    "area_loss": 0.41,
    "object_loss": 1.3,
    "background_loss": -3.2,
    "object_accuracy": 0.612,
    "background_accuracy": 0.1,
    "mean_cx": 0.5,
    "spread_cx": 0.04,
}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that is put forward by hand."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def show(stream, clock, epochs=10, first=0, steps=4, verbose=1, ran=2, first_batch=0):
    """Tell a bar of `ran` epochs with steps of 3 s, the first with 60 s of tracing."""
    bar = ProgressBar(stream=stream)
    bar.set_params({"verbose": verbose, "epochs": epochs, "steps": steps})
    bar.on_train_begin()
    clock[0] += 60
    for epoch in range(first, first + ran):
        bar.on_epoch_begin(epoch)
        for batch in range(first_batch if epoch == first else 0, 4):
            clock[0] += 3
            bar.on_train_batch_end(batch, DETECTOR_LOGS)
        bar.on_epoch_end(epoch, DETECTOR_LOGS)
    return stream.getvalue()


def test_a_log_gets_one_line_an_epoch_with_what_matters(clock):
    lines = show(io.StringIO(), clock).splitlines()
    values = "loss 5.432  area 0.410  object 1.300  background -3.200  object accuracy 0.612"
    # 36 and 32 steps of 3 s are left, whatever tracing took.
    assert lines == [
        f"Epoch  1/10  {values}  0:12, 1:48 left",
        f"Epoch  2/10  {values}  0:12, 1:36 left",
    ]


def test_the_last_epoch_has_no_time_left(clock):
    lines = show(io.StringIO(), clock, epochs=2).splitlines()
    assert lines[-1].endswith("object accuracy 0.612  0:12")


def test_a_terminal_shows_steps_and_the_time_of_the_stage_in_one_line(clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    text = show(Terminal(), clock)
    updates = text.split("\n")[0].split("\r")[1:]
    assert updates[0].startswith("Epoch  1/10  1/4  ? left  loss 5.432")
    assert updates[1].startswith("Epoch  1/10  2/4  1:54 left  loss")
    assert all(len(update.removesuffix("\x1b[K")) < 60 for update in updates[:-1])
    assert updates[-1].endswith("0:12, 1:48 left\x1b[K") and text.count("\n") == 2


def test_an_unknown_number_of_steps_is_learned_in_the_first_epoch(clock):
    lines = show(io.StringIO(), clock, steps=None).splitlines()
    assert lines[1].endswith("1:36 left")
    first = show(Terminal(), clock, steps=None).split("\r")[2]
    assert first.startswith("Epoch  1/10  2  ? left")


def test_resuming_within_an_epoch_counts_only_what_is_left(clock):
    lines = show(io.StringIO(), clock, first=7, first_batch=2, ran=2).splitlines()
    assert lines[0].startswith("Epoch  8/10") and lines[0].endswith("0:24 left")
    assert lines[1].endswith("0:12 left")


def test_silence_is_respected(clock):
    assert show(Terminal(), clock, verbose=0) == ""


def test_fit_shows_this_bar_and_not_keras_own(capsys):
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse", run_eagerly=True)
    data = np.ones((4, 2)), np.ones((4, 1))
    model.fit(*data, epochs=2, batch_size=2, validation_data=data, callbacks=[ProgressBar()])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["Epoch 1/2", "Epoch 2/2"]
