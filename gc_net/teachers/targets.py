"""The targets of a warm-up: asked for once, kept in a file, and put where a window shows them."""

import numpy as np

from gc_net.data.splits import DataError
from gc_net.shapes.base import Shape
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
    found = read_array(path, "coefficients")
    if found is not None:
        weights = read_array(path, "weights", optional=True)
        if weights is None:  # written before targets had weights
            weights = np.isfinite(found[:, 0]).astype(np.float32)
        masks = read_array(path, "masks", optional=True) if lesson.with_masks else None
        return Targets(found, weights, masks)
    targets = teacher.targets(lesson)
    if not len(targets.indices):
        raise DataError(
            f"No object was found in any of the {len(targets.weights)} training images, so there "
            "is nothing to warm up with. Use --warmup_epochs=0."
        )
    if write:
        # What is None was not asked for.
        arrays = {name: array for name, array in targets._asdict().items() if array is not None}
        write_array(path, **arrays)
    return targets


def in_windows(coefficients, windows, resize_size: int, image_size: int) -> np.ndarray:
    """Map shapes from the whole squashed image to windows of it.

    Args:
        coefficients: [N, n] relative to the whole image.
        windows: [N, 3] rows of (top, left, flip), see `transforms.random_windows`.

    Returns:
        [N, n] relative to the windows; a shape may reach beyond its own.
    """
    top, left, flip = np.asarray(windows, np.float32).T
    placed = np.array(coefficients, np.float32)
    placed[:, 0] = (placed[:, 0] * resize_size - left) / image_size
    placed[:, 1] = (placed[:, 1] * resize_size - top) / image_size
    placed[:, 2:4] *= resize_size / image_size
    return np.where(flip[:, None] > 0, Shape.mirrored(placed), placed)
