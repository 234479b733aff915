"""Writing so that a reader sees the old file or the new one, never half of one."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from typing import IO

# What a killed process leaves behind ends so, after the number of the process.
_PARTIAL_SUFFIX = ".partial"
_PARTIAL = re.compile(rf"\.\d+{re.escape(_PARTIAL_SUFFIX)}$")


@contextlib.contextmanager
def replaced_file(path: str | os.PathLike, mode: str = "w", sync: bool = False) -> Iterator[IO]:
    """Open a file that takes the place of `path` when the block ends without error.

    Args:
        path: File to write; its folder must exist.
        mode: `"w"` for text, in UTF-8 with line ends as they are given, or `"wb"`.
        sync: Whether the file has to be on the disk before it takes the old one's place, so that
            a power cut takes neither. Costs some milliseconds.

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
    """Give a new folder that takes the place of `path` when the block ends without error."""
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
    """Delete what killed processes have left below a folder that nobody else writes to.

    Args:
        sparing: Folders below that hold a file of this name, another process' lock, are left alone.
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
    # A name of its own for each process: two that write at once replace whole files.
    return f"{os.fspath(path)}.{os.getpid()}{_PARTIAL_SUFFIX}"


def _sync_folder(folder):
    # A rename survives a power cut only once its folder has reached the disk.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
