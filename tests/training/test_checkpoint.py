"""Checkpoints and the files of a run: whole, damaged, and where they cannot be written."""

import errno
import multiprocessing
import os
import signal

import numpy as np
import pytest

from gc_net.stages import run_folder
from gc_net.stages.run_folder import RunError
from gc_net.training.checkpoint import Checkpoints

ARRAYS = {"0000:kernel": np.arange(12, dtype=np.float32).reshape(3, 4), "0001:seed": np.uint32([7])}


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(str(tmp_path / "checkpoints"))


def saved(checkpoints, *steps):
    for step in steps:
        checkpoints.save(step, {**ARRAYS, "0002:step": np.int64(step)}, {"step": step})


def loaded_step(checkpoints):
    found = checkpoints.load()
    return found and found[1]["step"]


def test_what_is_saved_is_loaded_with_types_and_shapes(checkpoints):
    checkpoints.save(5, ARRAYS, {"step": 5, "note": "ä"})
    arrays, position = checkpoints.load()
    assert position == {"step": 5, "note": "ä"}
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


def test_the_last_two_are_kept_and_the_newest_is_loaded(checkpoints):
    saved(checkpoints, 9, 10, 100)
    assert [os.path.basename(path) for path in checkpoints.paths()] == [
        "step-000000100.npz",
        "step-000000010.npz",
    ]
    assert loaded_step(checkpoints) == 100


def test_nothing_is_loaded_where_nothing_was_saved(checkpoints):
    assert checkpoints.load() is None


def test_any_damaged_byte_is_recognised_or_without_effect(checkpoints, caplog):
    saved(checkpoints, 1, 2)
    newest = checkpoints.paths()[0]
    with open(newest, "rb") as file:
        whole = file.read()
    recognised = 0
    for place in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        with open(newest, "wb") as file:
            file.write(damaged)
        arrays, position = checkpoints.load()
        step = position["step"]
        recognised += step == 1
        assert arrays["0002:step"] == step
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(arrays[name], array)
    assert recognised > len(whole) / 3 / 2
    assert "is damaged" in caplog.text


@pytest.mark.parametrize("part", [0, 1, 0.3, 0.9])
def test_a_cut_off_checkpoint_gives_way_to_the_one_before(checkpoints, part):
    saved(checkpoints, 1, 2)
    newest = checkpoints.paths()[0]
    size = os.path.getsize(newest)
    os.truncate(newest, part if part == 1 else int(part * size))
    assert loaded_step(checkpoints) == 1


def test_damaged_checkpoints_do_not_stand_in_the_way_of_new_ones(checkpoints):
    saved(checkpoints, 900, 1000)
    for path in checkpoints.paths():
        os.truncate(path, 10)
    assert checkpoints.load() is None
    saved(checkpoints, 200)
    assert loaded_step(checkpoints) == 200
    saved(checkpoints, 300, 400)
    assert loaded_step(checkpoints) == 400 and len(checkpoints.paths()) == 2


def test_a_half_written_file_of_a_killed_run_is_removed(checkpoints):
    saved(checkpoints, 1)
    leftover = os.path.join(checkpoints.folder, "step-000000002.npz.1234.partial")
    with open(leftover, "wb") as file:
        file.write(b"half")
    assert loaded_step(checkpoints) == 1
    saved(checkpoints, 3)
    assert not os.path.exists(leftover)


def test_a_full_disk_is_reported_and_leaves_the_last_checkpoint(checkpoints, monkeypatch):
    saved(checkpoints, 1)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RunError, match=r"disk is full: .*step-000000002.npz .*Free some space"):
            saved(checkpoints, 2)
    assert loaded_step(checkpoints) == 1
    assert os.listdir(checkpoints.folder) == ["step-000000001.npz"]


def test_a_folder_that_cannot_be_made_is_reported(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    message = r"cannot be written: Not a directory.*--work_dir"
    with pytest.raises(RunError, match=message), run_folder.locked(str(tmp_path / "file" / "run")):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_reported(tmp_path):
    tmp_path.chmod(0o500)
    message = "cannot be written: Permission denied"
    with pytest.raises(RunError, match=message), run_folder.locked(str(tmp_path / "run")):
        pass


def hold(work_dir, ready):
    with run_folder.locked(work_dir):
        ready.set()
        signal.pause()


def test_a_run_keeps_others_out_until_its_process_is_gone(tmp_path):
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    holder = context.Process(target=hold, args=(str(tmp_path), ready))
    holder.start()
    assert ready.wait(30)
    message = f"in use by another run \\(process {holder.pid}\\)"
    with pytest.raises(RunError, match=message), run_folder.locked(str(tmp_path)):
        pass
    os.kill(holder.pid, signal.SIGKILL)
    holder.join(30)
    with run_folder.locked(str(tmp_path)):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
