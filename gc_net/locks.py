"""Locks on files, which end with their process, however that ends."""

import errno
from typing import IO

try:
    import fcntl
except ImportError:  # Windows has no flock, so nothing is locked there
    fcntl = None

# Some network file systems have no locks at all. Work goes on there as on Windows.
_UNSUPPORTED = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)


def try_lock(file: IO) -> bool:
    """Lock an open, writable file until it is closed or its process ends, in any way.

    Returns:
        False if another process, or this one with another open file, already holds the lock.

    Example:
        with open("lock", "a") as file:
            if not try_lock(file):
                raise ValueError("Somebody else is at work here.")
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    return True
