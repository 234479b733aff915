"""Atomic writing: a reader sees the old file or the new one, never half a file."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from typing import IO

# The suffix of files that a killed process leaves, after the number of the process.
_PARTIAL_SUFFIX = ".partial"
_PARTIAL = re.compile(rf"\.\d+{re.escape(_PARTIAL_SUFFIX)}$")


@contextlib.contextmanager
def replaced_file(path: str | os.PathLike, mode: str = "w", sync: bool = False) -> Iterator[IO]:
    """Open a file that replaces `path` when the block ends without error.

    Args:
        path: File to write; its folder must exist.
        mode: `"w"` for text, in UTF-8 with unchanged line ends, or `"wb"`.
        sync: Whether the file must be on the disk before it replaces the old one, so that a power
            cut destroys neither. Takes some milliseconds.

    Example:
        with replaced_file("labels.json") as file:
            json.dump(labels, file)
    """
    temporary = _temporary(path)
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        with open(temporary, mode, **text) as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if sync:
            _sync_folder(os.path.dirname(os.path.abspath(path)))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def replaced_folder(path: str | os.PathLike) -> Iterator[str]:
    """Yield a new folder that replaces `path` when the block ends without error."""
    temporary = _temporary(path)
    # In a container a killed process and the next one often have the same number.
    shutil.rmtree(temporary, ignore_errors=True)
    os.makedirs(temporary)
    try:
        yield temporary
        if os.path.isdir(path):
            shutil.rmtree(path)
        os.rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def remove_partial(folder: str | os.PathLike, sparing: str | None = None) -> None:
    """Delete the left-overs of killed processes below a folder that nobody else writes to.

    Args:
        sparing: Folders that hold a file of this name, another process' lock, are left alone.
    """
    folder = os.fspath(folder)
    for path, folders, files in os.walk(folder):
        if sparing in files and path != folder:
            folders.clear()
            continue
        for name in filter(_PARTIAL.search, list(folders)):
            folders.remove(name)
            shutil.rmtree(os.path.join(path, name), ignore_errors=True)
        for name in files:
            if _PARTIAL.search(name):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(path, name))


def _temporary(path):
    # A name for each process, so that two that write at once replace whole files.
    return f"{os.fspath(path)}.{os.getpid()}{_PARTIAL_SUFFIX}"


def _sync_folder(folder):
    # A rename survives a power cut only once its folder has reached the disk.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
