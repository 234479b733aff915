"""Files of a run: written in one step each, with errors that say what to do."""

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterator
from typing import IO, Any

from gc_net.atomic_files import replaced_file


class RunError(ValueError):
    """A run that cannot be started or resumed; the message says why, and what to do."""


@contextlib.contextmanager
def explained_write_errors(path: str) -> Iterator[None]:
    """Turn the errors of a full or unwritable disk into ones that say what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RunError(
                f"The disk is full: {path} could not be written ({error.strerror}). What was "
                "written before is intact. Free some space and run the same command again; it "
                "resumes at the last checkpoint."
            ) from error
        raise RunError(
            f"{path} cannot be written: {error.strerror or error}. Choose another folder with "
            "--work_dir, or change its permissions."
        ) from error


def replace_file(path: str, write: Callable[[IO], object], mode: str = "wb") -> None:
    """Write a file in one step: readers see the old one or the new one, whatever happens.

    Args:
        path: File to write.
        write: Function that is given the open temporary file.
    """
    with explained_write_errors(path), replaced_file(path, mode, sync=True) as file:
        write(file)


def write_json(path: str, record: Any) -> None:
    def write(file):
        json.dump(record, file, indent=2, ensure_ascii=False)
        file.write("\n")

    replace_file(path, write, mode="w")


def read_json(path: str) -> Any:
    """Return the content of a JSON file, or None if there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}. Delete it, or use another folder.") from None


def make_folder(path: str) -> str:
    with explained_write_errors(path):
        os.makedirs(path, exist_ok=True)
    return path
