import errno
import os

import pytest

from gc_net import locks


def refuse(number):
    def flock(file, operation):
        raise OSError(number, os.strerror(number))

    return flock


def test_a_lock_is_held_until_its_file_is_closed(tmp_path):
    with open(tmp_path / "lock", "a") as second:
        with open(tmp_path / "lock", "a") as first:
            assert locks.try_lock(first)
            assert not locks.try_lock(second)
        assert locks.try_lock(second)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK])
def test_work_goes_on_where_the_file_system_has_no_locks(number, tmp_path, monkeypatch):
    monkeypatch.setattr(locks.fcntl, "flock", refuse(number))
    with open(tmp_path / "lock", "a") as file:
        assert locks.try_lock(file)


def test_other_errors_are_not_taken_for_a_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(locks.fcntl, "flock", refuse(errno.EIO))
    with open(tmp_path / "lock", "a") as file, pytest.raises(OSError, match="Input/output"):
        locks.try_lock(file)


def test_work_goes_on_where_the_system_has_no_flock(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "fcntl", None)
    with open(tmp_path / "lock", "a") as first, open(tmp_path / "lock", "a") as second:
        assert locks.try_lock(first) and locks.try_lock(second)
