"""Disks that are full, or closed to this user."""

import contextlib
import os
import resource
import subprocess

import pytest

NOBODY = 65534


@contextlib.contextmanager
def small_disk(kind, folder, size):
    """Within the block, `folder` holds no more than about `size` bytes.

    Args:
        kind: `"tmpfs"`, a file system of that size, for which one must be root, or `"limit"`, by
            which the kernel refuses to let any file grow beyond it.
    """
    folder.mkdir(exist_ok=True)
    if kind == "tmpfs":
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("no small file system can be mounted here")
        try:
            yield lambda: subprocess.run(
                ["mount", "-o", f"remount,size={2**26}", str(folder)], check=True
            )
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True)
    else:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)

        def lift():
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            yield lift
        finally:
            lift()


@contextlib.contextmanager
def without_rights():
    """Within the block, this process may do only what permissions allow, which root ignores."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
