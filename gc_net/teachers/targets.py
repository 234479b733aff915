"""The targets of a warm-up: asked for once, and kept in a file."""

import numpy as np

from gc_net.data.splits import DataError
from gc_net.stages.run_folder import read_array, write_array
from gc_net.teachers.base import Lesson, Targets, Teacher


def find_targets(teacher: Teacher, lesson: Lesson, path: str, write: bool = True) -> Targets:
    """Return the targets for the training images.

    Args:
        teacher: Who is asked.
        lesson: What it is given, with a trained classifier.
        path: File to take the result from, where it exists, and else to write it to.
        write: Whether to write it.
    """
    found = read_targets(path, lesson)
    if found is not None:
        return found
    targets = teacher.targets(lesson)
    if not len(targets.indices):
        raise DataError(
            f"No object was found in any of the {len(targets.weights)} training images, so there "
            "is nothing to warm up with. Use --warmup_epochs=0."
        )
    if write:
        write_targets(path, targets)
    return targets


def read_targets(path: str, lesson: Lesson) -> Targets | None:
    """Return the targets in a file; None where there is no such file, or a damaged one."""
    found = read_array(path, "coefficients")
    if found is None:
        return None
    weights = read_array(path, "weights", optional=True)
    if weights is None:  # written before targets had weights
        weights = np.isfinite(found[:, 0]).astype(np.float32)
    masks = read_array(path, "masks", optional=True) if lesson.with_masks else None
    return Targets(found, weights, masks)


def write_targets(path: str, targets: Targets, **numbers: float) -> None:
    """Write targets to a file, with numbers beside them."""
    # What is None was not asked for.
    arrays = {name: array for name, array in targets._asdict().items() if array is not None}
    write_array(path, **arrays, **{name: np.float32(value) for name, value in numbers.items()})
