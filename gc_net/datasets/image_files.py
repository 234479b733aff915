"""Shared by datasets of image files: making splits, joining boxes, naming places."""

import os
from collections.abc import Iterator, Sequence

import numpy as np

from gc_net.data.decode import FileReader
from gc_net.data.splits import DataError, Split, Truth

SPLIT_NAMES = ("train", "test")


def file_split(
    name: str, class_names: Sequence[str], labels: np.ndarray, files: np.ndarray, root: str
) -> Split:
    """Return the `Split` of image files below `root`.

    Args:
        name: `"train"` or `"test"`.
        class_names: Names in label order.
        labels: [N] integers.
        files: [N] UTF-8 bytes or strings, relative to `root`.
        root: Folder that holds the files.
    """
    if not isinstance(files, np.ndarray):
        files = np.array([os.fsencode(file) for file in files], dtype=np.bytes_)
    labels = np.asarray(labels, dtype=np.int32)
    return Split(name, tuple(class_names), labels, files, root, FileReader(root, files))


def join_boxes(image_indices: np.ndarray, boxes_xyxy: np.ndarray, num_images: int) -> Truth:
    """Return the `Truth` of boxes that are in any order.

    Args:
        image_indices: [M] integers, the image each box belongs to.
        boxes_xyxy: [M, 4] corners in pixels.
        num_images: Number of images of the split; those without a box own an empty range.
    """
    image_indices = np.asarray(image_indices, dtype=np.int64)
    boxes_xyxy = np.asarray(boxes_xyxy, dtype=np.float32).reshape(-1, 4)
    starts = np.zeros(num_images + 1, dtype=np.int64)
    np.cumsum(np.bincount(image_indices, minlength=num_images), out=starts[1:])
    # A stable sort keeps an image's boxes in the order of their file.
    return Truth(boxes_xyxy[np.argsort(image_indices, kind="stable")], starts)


def check_split_name(name: str) -> None:
    """Raise a `DataError` unless `name` is one a dataset has."""
    if name not in SPLIT_NAMES:
        raise DataError(f"Unknown split {name!r}. Known ones: {', '.join(SPLIT_NAMES)}.")


def existing_folder(data_dir: str | os.PathLike) -> str:
    """Return the absolute path of `data_dir`, in which `~` stands for the home folder."""
    if data_dir is None:
        raise DataError("This dataset is read from files: name their folder with data_dir.")
    data_dir = os.path.abspath(os.path.expanduser(os.fspath(data_dir)))
    if not os.path.isdir(data_dir):
        raise DataError(f"The data folder {data_dir} does not exist or is not a folder.")
    return data_dir


def data_folder(data_dir: str | os.PathLike, marker: str, below: str) -> str:
    """Return `data_dir`, or the folder `below` it, whichever holds `marker`.

    Args:
        data_dir: What the user gave.
        marker: A file or folder that identifies the right level.
        below: Name of the level that the user may have left out.
    """
    data_dir = existing_folder(data_dir)
    for folder in (data_dir, os.path.join(data_dir, below)):
        if os.path.exists(os.path.join(folder, marker)):
            return folder
    raise DataError(
        f"{data_dir} holds no {marker}, and neither does a folder {below} in it. "
        f"Point data_dir at the folder that holds {marker}."
    )


def read_lines(path: str | os.PathLike) -> Iterator[tuple[str, str]]:
    """Yield `(place, text)` for each line of a text file that is not blank.

    `place` is `"file, line n"`, ready for an error message.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f"{path}, line {number}", line.strip()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text ({error.reason}).") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
