import os
import stat

import pytest

from gc_net.atomic_files import remove_partial, replaced_file, replaced_folder


@pytest.mark.parametrize(
    "mode, old, new", [("w", "old\r\n", "nëw\r\n"), ("wb", b"old", b"\x00new")]
)
@pytest.mark.parametrize("sync", [False, True])
def test_readers_see_the_old_file_until_the_new_one_is_whole(tmp_path, mode, old, new, sync):
    path = tmp_path / "file"
    read = path.read_bytes
    with replaced_file(path, mode, sync=sync) as file:
        file.write(old)
    before = read()
    with replaced_file(path, mode, sync=sync) as file:
        file.write(new)
        file.flush()
        assert read() == before
    assert read() == (new if mode == "wb" else new.encode())
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(type(error)), replaced_file(path) as file:
        file.write("new")
        raise error
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["file"]


def test_a_file_may_be_read_by_whom_the_umask_allows(tmp_path):
    umask = os.umask(0o027)
    try:
        with replaced_file(tmp_path / "file") as file:
            file.write("text")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_a_synced_file_reaches_the_disk_before_it_takes_the_others_place(tmp_path, monkeypatch):
    order = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (order.append("sync"), sync(handle)))
    monkeypatch.setattr(os, "replace", lambda *paths: (order.append("replace"), replace(*paths)))
    with replaced_file(tmp_path / "file", sync=True) as file:
        file.write("text")
    assert order == ["sync", "replace", "sync"]  # the file, then its folder


def test_a_folder_is_replaced_as_a_whole_also_over_the_leftovers_of_a_killed_process(tmp_path):
    for name in ("labels", f"labels.{os.getpid()}.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "old").touch()
    with replaced_folder(tmp_path / "labels") as folder:
        open(os.path.join(folder, "new"), "w").close()
    assert os.listdir(tmp_path) == ["labels"] and os.listdir(tmp_path / "labels") == ["new"]


def test_leftovers_are_removed_at_any_depth_and_nothing_else(tmp_path):
    (tmp_path / "a" / "b.77.partial").mkdir(parents=True)
    kept = [tmp_path / "a" / "partial", tmp_path / "a" / "c.npz", tmp_path / "film.mp4.partial"]
    for path in [*kept, tmp_path / "a" / "b.77.partial" / "d", tmp_path / "c.npz.8.partial"]:
        path.touch()
    remove_partial(tmp_path)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)


def test_leftovers_in_a_folder_with_a_lock_of_its_own_may_be_another_process_work(tmp_path):
    (tmp_path / "other" / "deeper").mkdir(parents=True)
    kept = ["lock", "other/lock", "other/a.8.partial", "other/deeper/b.8.partial"]
    for name in [*kept, "c.8.partial"]:
        (tmp_path / name).touch()
    remove_partial(tmp_path, sparing="lock")
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(
        tmp_path / name for name in kept
    )
