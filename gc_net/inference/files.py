"""Writing so that a reader sees the old file or the new one, never half of one."""

import contextlib
import os
import shutil


@contextlib.contextmanager
def replaced_file(path):
    """Open a UTF-8 text file that takes the place of `path` when the block ends without error."""
    temporary = f"{path}.{os.getpid()}.partial"
    try:
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def replaced_folder(path):
    """Give a new folder that takes the place of `path` when the block ends without error."""
    temporary = f"{path}.{os.getpid()}.partial"
    os.makedirs(temporary)
    try:
        yield temporary
        if os.path.isdir(path):
            shutil.rmtree(path)
        os.rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
