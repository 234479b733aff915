"""Sizes and times of a run's training files, so that a changed file can be named.

Names and labels are in the record of every stage. Sizes and times are separate, because runs of
earlier versions do not have them, and because they can name the one of a million images that has
changed.
"""

import dataclasses
import logging
import os

import numpy as np

from gc_net.data.names import printable, some_lines
from gc_net.data.splits import Split
from gc_net.run_files import RunError, replace_file
from gc_net.stages.run_folder import read_array

RECORD_FILE = "training_images.npz"
_NAMED = 5
_log = logging.getLogger("gc_net")


@dataclasses.dataclass(frozen=True)
class ImageRecord:
    """Attributes:
    sizes: int64 [N], bytes of each image's file; 0 for an image that is drawn, or missing.
    times: int64 [N], when each was last written, in nanoseconds.
    """

    sizes: np.ndarray
    times: np.ndarray

    @classmethod
    def of(cls, split: Split) -> "ImageRecord":
        """Return the record of the files as they are now."""
        found = np.zeros((len(split), 2), np.int64)
        for index in range(len(split)):
            found[index] = split.file_stamp(index)
        return cls(found[:, 0], found[:, 1])

    @classmethod
    def read(cls, work_dir: str) -> "ImageRecord | None":
        """Return the record of a run's first start; None if there is none."""
        path = os.path.join(work_dir, RECORD_FILE)
        sizes, times = read_array(path, "sizes"), read_array(path, "times")
        return None if sizes is None or times is None else cls(sizes, times)

    def write(self, work_dir: str) -> None:
        """Keep it in the folder of a run."""
        path = os.path.join(work_dir, RECORD_FILE)
        replace_file(path, lambda file: np.savez(file, sizes=self.sizes, times=self.times))

    def changes(self, now: "ImageRecord", split: Split) -> str:
        """Return a text that names files whose size has changed; empty if there are none.

        Args:
            now: The present record of the same images.
        """
        changed = np.flatnonzero(self.sizes != now.sizes)
        names = (
            f"{printable(split.file(index))}: {_size(self.sizes[index])} there, "
            f"{_size(now.sizes[index])} now"
            for index in changed
        )
        return "\n".join(some_lines(names, _NAMED))


def check_images(work_dir: str, now: ImageRecord, split: Split) -> None:
    """Compare the images of a resumed run with those of its first start.

    A file of another size is refused. A file of the same size with another time may be a copy, so
    it is only named.

    Raises:
        RunError: If files have changed; the message names them and says what to do.
    """
    before = ImageRecord.read(work_dir)
    if before is None or before.sizes.shape != now.sizes.shape:
        return
    changes = before.changes(now, split)
    if changes:
        raise RunError(
            f"Training images have changed since the run in {work_dir} was begun:\n{changes}\n"
            "Restore them, or choose another --work_dir to train with the present ones."
        )
    touched = np.flatnonzero(before.times != now.times)
    if len(touched):
        _log.warning(
            "%s training images were written since the run in %s was begun, %s first. Their sizes "
            "are the same. If their content has changed, choose another --work_dir.",
            f"{len(touched):,}",
            work_dir,
            printable(split.file(touched[0])),
        )


def _size(number):
    return f"{number:,} bytes" if number else "no file"
