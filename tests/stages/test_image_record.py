"""An image that was changed under a run that is resumed is named."""

import logging
import os

import pytest

from gc_net.stages import run_folder
from gc_net.stages.config import DataConfig, TrainConfig
from gc_net.stages.image_record import RECORD_FILE, ImageRecord, check_images
from gc_net.stages.run_folder import RunError
from gc_net.stages.runner import train
from gc_net.training.loop import CHECKPOINTS
from tests.data import encoded
from tests.data.sources import drawn_split, file_split
from tests.training.samples import small_config, small_options

STAGES = ["classifier"]


@pytest.fixture
def split(tmp_path):
    (tmp_path / "photos").mkdir()
    return file_split(tmp_path / "photos")


def path_of(split, index):
    return os.path.join(split.root, split.file(index))


def test_a_file_of_another_size_or_none_is_refused_by_its_name(split, tmp_path):
    ImageRecord.of(split).write(tmp_path)
    check_images(str(tmp_path), ImageRecord.of(split), split)
    size = os.path.getsize(path_of(split, 2))
    with open(path_of(split, 2), "ab") as file:
        file.write(b"more")
    os.unlink(path_of(split, 5))
    with pytest.raises(RunError) as error:
        check_images(str(tmp_path), ImageRecord.of(split), split)
    assert f"{split.file(2)}: {size:,} bytes there, {size + 4:,} bytes now" in str(error.value)
    assert f"{split.file(5)}: " in str(error.value) and "no file now" in str(error.value)
    assert "choose another --work_dir" in str(error.value)


def test_a_file_that_was_written_again_is_named_and_goes_through(split, tmp_path, caplog):
    ImageRecord.of(split).write(tmp_path)
    os.utime(path_of(split, 3), ns=(1, 1))
    with caplog.at_level(logging.WARNING, "gc_net"):
        check_images(str(tmp_path), ImageRecord.of(split), split)
    assert f"1 training images were written since the run in {tmp_path}" in caplog.text
    assert f"{split.file(3)} first" in caplog.text


def test_drawn_images_have_no_files_that_could_change(tmp_path):
    split, _ = drawn_split()
    ImageRecord.of(split).write(tmp_path)
    check_images(str(tmp_path), ImageRecord.of(split), split)
    assert not ImageRecord.of(split).sizes.any()


@pytest.fixture
def photos(tmp_path):
    for number in range(16):
        folder = tmp_path / "photos" / "train" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        image = encoded.photo(36, 40, seed=number)
        (folder / f"{number}.png").write_bytes(encoded.encode(".png", image))
    return tmp_path / "photos"


def config(photos, epochs):
    small = small_config(classifier={"epochs": epochs, "batch_size": 8})
    data = DataConfig("folder", str(photos), image_size=32)
    return TrainConfig(data=data, network=small.network, classifier=small.classifier)


def test_a_run_is_resumed_with_its_own_images_only(photos, tmp_path, capsys):
    begun = small_options(tmp_path / "run", cache_dir="none")
    train(config(photos, 1), begun, STAGES)
    # As it was left by a process that was killed once its result was there.
    left_over = tmp_path / "run" / "classifier" / CHECKPOINTS
    left_over.mkdir()
    (left_over / "step-000000002.npz").write_bytes(b"of no use any more")
    train(config(photos, 1), begun, STAGES)
    assert not left_over.exists()

    changed = photos / "train" / "a" / "2.png"
    whole = changed.read_bytes()
    changed.write_bytes(encoded.encode(".png", encoded.photo(30, 40)))
    with pytest.raises(RunError, match=r"(?s)images have changed since.*a/2\.png: .* bytes there"):
        train(config(photos, 1), begun, STAGES)

    again = small_options(tmp_path / "other", cache_dir="none", reuse=begun.work_dir, verbose=1)
    train(config(photos, 1), again, STAGES)
    said = capsys.readouterr().out
    assert "is not reused: training images have changed" in said and "a/2.png: " in said
    assert (tmp_path / "other" / "classifier" / "model" / "model.json").exists()

    changed.write_bytes(whole)
    train(config(photos, 1), begun, STAGES)
    # A run of before there was such a record is resumed as it is, and has one from then on.
    os.unlink(tmp_path / "run" / RECORD_FILE)
    train(config(photos, 1), begun, STAGES)
    assert ImageRecord.read(begun.work_dir).sizes.all()
    assert run_folder.read_settings(os.path.join(begun.work_dir, "classifier")) is not None
