"""Version folders for TF Serving: each appears at once and never changes."""

import contextlib
import os
import shutil


def next_version(folder):
    """Return the number after the largest version in `folder`; 1 where there is none."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return max((int(name) for name in names if name.isdecimal()), default=0) + 1


@contextlib.contextmanager
def new_version(folder, version=None):
    """Yield a temporary folder that becomes `folder/version` when the block ends without error.

    Until then its name is not a number, so a server ignores it.

    Args:
        folder: Folder of the model's versions.
        version: A number that does not exist yet; the next one if None.

    Yields:
        The path of the temporary folder, which does not exist yet, and its final path.

    Raises:
        FileExistsError: If the version exists.
        OSError: If it cannot be written.
    """
    from tensorflow.errors import OpError

    os.makedirs(folder, exist_ok=True)
    version = next_version(folder) if version is None else version
    final = os.path.join(folder, str(version))
    _refuse(final)
    temporary = os.path.join(folder, f".{version}.{os.getpid()}.partial")
    try:
        yield temporary, final
        _refuse(final)
        os.rename(temporary, final)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OpError):
            # TensorFlow writes its own files, with its own errors for a full disk.
            raise OSError(f"{final} could not be written: {error.message}") from error
        raise


def _refuse(final):
    if os.path.exists(final):
        raise FileExistsError(
            f"The version {final} exists, and a version that may be served is never changed. "
            "Leave the version out to take the next number."
        )
