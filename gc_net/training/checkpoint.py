"""Checkpoints: all that a training's next step depends on, as one `.npz` file.

The zip container keeps a CRC-32 of every array. So a truncated or altered file is noticed when it
is read, and the checkpoint before it is used.
"""

import json
import logging
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from gc_net.atomic_files import remove_partial
from gc_net.run_files import make_folder, replace_file

_NAME = re.compile(r"step-(\d+)\.npz")
_RECORD = "record"
_log = logging.getLogger("gc_net")


class Checkpoints:
    """The newest few checkpoints in a folder.

    Args:
        folder: Where they are kept; made with the first one.
        keep: How many are kept.

    Example:
        checkpoints = Checkpoints("runs/mine/detector/checkpoints")
        checkpoints.save(1200, arrays, {"epoch": 6, "step": 78})
        arrays, position = checkpoints.load()
    """

    def __init__(self, folder: str, keep: int = 2):
        self.folder = folder
        self.keep = keep

    def paths(self) -> list[str]:
        """Return the paths of all checkpoints, newest first."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        names = sorted(filter(_NAME.fullmatch, names), key=_step, reverse=True)
        return [os.path.join(self.folder, name) for name in names]

    def save(self, step: int, arrays: Mapping[str, np.ndarray], position: Mapping[str, Any]) -> str:
        """Write a checkpoint and delete those that are no longer kept.

        Args:
            step: Number of steps done; names the file.
            arrays: Mapping of name to array.
            position: JSON-serialisable dict kept with them.
        """
        make_folder(self.folder)
        remove_partial(self.folder)
        record = {"names": list(arrays), "position": position}
        text = np.frombuffer(json.dumps(record).encode(), np.uint8)
        path = os.path.join(self.folder, f"step-{step:09d}.npz")
        replace_file(path, lambda file: np.savez(file, **{_RECORD: text}, **arrays))
        # A later one can only be damaged: training has continued from a step before it.
        newer = [other for other in self.paths() if _step(other) > step]
        older = [other for other in self.paths() if _step(other) <= step]
        for other in newer + older[self.keep :]:
            os.unlink(other)
        return path

    def load(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """Return (arrays, position) of the newest checkpoint that is whole, or None."""
        for path in self.paths():
            try:
                return read_checkpoint(path)
            # A damaged container raises almost anything, from KeyError to NotImplementedError.
            except Exception as error:
                _log.warning(
                    "The checkpoint %s is damaged (%s); the one before is used, if any.",
                    path,
                    error,
                )
        return None

    def clear(self) -> None:
        """Delete all checkpoints, once the result they led to is written."""
        for path in self.paths():
            os.unlink(path)
        remove_partial(self.folder)
        if os.path.isdir(self.folder) and not os.listdir(self.folder):
            os.rmdir(self.folder)


def _step(path):
    return int(_NAME.fullmatch(os.path.basename(path))[1])


def read_checkpoint(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the position in one file; raises if any of it is damaged."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    record = json.loads(bytes(arrays.pop(_RECORD)).decode())
    if record["names"] != list(arrays):
        raise ValueError("its arrays are not those that were written")
    return arrays, record["position"]
