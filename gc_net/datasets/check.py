"""Checks a dataset for problems that would spoil training or evaluation.

It decodes every image, compares every box with its image, and finds files that occur twice by their
contents. The result is a `Report` (`gc_net.datasets.check_report`).
"""

import concurrent.futures
import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gc_net.data.decode import IN_FLIGHT
from gc_net.data.splits import DataError, ImageError
from gc_net.datasets.check_report import Report, SplitReport
from gc_net.datasets.image_files import SPLIT_NAMES
from gc_net.progress import track

if TYPE_CHECKING:
    from gc_net.data.splits import Dataset, Split

# Images per chunk: enough to keep all threads busy, few enough to hold in memory.
_CHUNK = 1024
# Formats differ in whether the last pixel counts, and scaled boxes are rounded.
BOX_TOLERANCE = 1.0


def check_dataset(
    dataset: "Dataset",
    workers: int | None = None,
    batch_sizes: Mapping[str, int] | None = None,
    num_folds: int = 0,
) -> Report:
    """Return the `Report` of a dataset.

    Args:
        dataset: A `Dataset`.
        workers: Number of threads; one for each processor if None.
        batch_sizes: Images in a step of each stage of the planned training, by what its flags begin
            with. Every stage needs a batch.
        num_folds: Its fold classifiers, which see only the images of the other folds.

    Example:
        report = check_dataset(datasets.get("folder", data_dir="my_photos"))
        print(report.text())
    """
    splits = {name: dataset.split(name) for name in SPLIT_NAMES}
    reports = {name: _check_split(dataset, split, workers) for name, split in splits.items()}
    across, mislabelled, within = find_duplicates(list(splits.values()), workers)
    return Report(
        dataset=dataset.name,
        root=getattr(dataset, "data_dir", None) or "",
        class_names=list(dataset.class_names),
        splits=reports,
        duplicates_across_splits=across,
        duplicates_across_classes=mislabelled,
        num_duplicates_within=within,
        unread=getattr(dataset, "unread_pictures", list)(),
        batch_sizes=dict(batch_sizes or {}),
        num_folds=num_folds,
    )


def measure(split: "Split", workers: int | None = None) -> tuple[np.ndarray, list[tuple[int, str]]]:
    """Decode every image of a split.

    Returns:
        [N, 2] int32 heights and widths, 0 for unreadable images, and the list of `(index, reason)`
        of unreadable images.
    """

    def read(index):
        try:
            with IN_FLIGHT.image():
                return split.read(index).shape[:2]
        except ImageError as error:
            return str(error)

    sizes = np.zeros((len(split), 2), dtype=np.int32)
    failures = []
    results = track(_map(read, len(split), workers), len(split), f"Reading {split.name} images")
    for index, result in enumerate(results):
        if isinstance(result, str):
            failures.append((index, result))
        else:
            sizes[index] = result
    return sizes, failures


def find_duplicates(
    splits: "Sequence[Split]", workers: int | None = None
) -> tuple[list, list, int]:
    """Find files with the same contents.

    A file is hashed only if another has the same size. Empty files, and images that are not files,
    are left out.

    Returns:
        Groups of files that are in more than one split; groups of one split that have more than
        one label; and the number of superfluous files in the other groups.
    """
    origin = np.repeat(np.arange(len(splits)), [len(split) for split in splits])
    index = np.concatenate([np.arange(len(split)) for split in splits])
    labels = np.concatenate([split.labels for split in splits])

    def path(position):
        split = splits[origin[position]]
        return os.path.join(split.root, split.file(index[position]))

    sizes = track(_map(lambda i: _size(path(i)), len(index), workers), len(index), "Sizes of files")
    sizes = np.fromiter(sizes, dtype=np.int64, count=len(index))
    unique, inverse, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    suspects = np.flatnonzero((counts[inverse] > 1) & (unique[inverse] > 0))
    hashes = _map(lambda i: _hash(path(suspects[i])), len(suspects), workers)
    hashes = track(hashes, len(suspects), "Comparing files of equal size")
    hashes = np.fromiter(hashes, dtype=np.uint64, count=len(suspects))

    across, mislabelled, within = [], [], 0
    order = np.lexsort((suspects, hashes, sizes[suspects]))
    keys = np.stack([hashes, sizes[suspects].astype(np.uint64)], axis=1)[order]  # [M, 2]
    breaks = np.flatnonzero(np.any(keys[1:] != keys[:-1], axis=1)) + 1
    for group in np.split(suspects[order], breaks):
        if len(group) < 2:
            continue
        names = [f"{splits[origin[i]].name}: {splits[origin[i]].file(index[i])}" for i in group]
        if len(set(origin[group])) > 1:
            across.append(names)
        elif len(set(labels[group])) > 1:
            mislabelled.append(names)
        else:
            within += len(group) - 1
    return across, mislabelled, within


def _check_split(dataset, split, workers):
    sizes, failures = measure(split, workers)
    report = SplitReport(
        class_counts=np.bincount(split.labels, minlength=len(split.class_names)).tolist(),
        unreadable=[(split.file(index), reason) for index, reason in failures],
    )
    readable = np.flatnonzero(sizes[:, 0])
    if len(readable):
        areas = np.prod(sizes[readable], axis=1, dtype=np.int64)
        order = readable[np.argsort(areas, kind="stable")]
        for key, index in zip(
            ("smallest", "median", "largest"), (0, len(order) // 2, -1), strict=True
        ):
            height, width = sizes[order[index]].tolist()
            report.sizes[key] = (split.file(order[index]), width, height)
    try:
        truth = dataset.truth(split.name)
    except DataError as error:
        report.box_error = str(error)
        return report
    if truth is not None:
        _check_boxes(split, sizes, truth, report)
    return report


def _check_boxes(split, sizes, truth, report):
    report.num_boxes = len(truth.boxes)
    boxes_an_image = np.diff(truth.starts)
    report.without_boxes = [split.file(index) for index in np.flatnonzero(boxes_an_image == 0)]
    images = np.repeat(np.arange(len(split)), boxes_an_image)
    limits = sizes[images][:, ::-1].astype(np.float32)  # [M, 2] width, height
    low, high = truth.boxes[:, :2], truth.boxes[:, 2:]
    outside = (low < -BOX_TOLERANCE) | (high > limits + BOX_TOLERANCE) | (low >= high)
    outside = outside.any(axis=1) & (limits[:, 0] > 0)
    for position in np.flatnonzero(outside):
        height, width = sizes[images[position]].tolist()
        box = [round(float(value), 2) for value in truth.boxes[position]]
        report.boxes_outside.append((split.file(images[position]), box, width, height))


def _map(function, count, workers):
    """Yield `function(0)` to `function(count − 1)`, computed in threads, chunk by chunk."""
    with concurrent.futures.ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        for start in range(0, count, _CHUNK):
            yield from pool.map(function, range(start, min(start + _CHUNK, count)))


def _size(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _hash(path):
    try:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=8)).digest()
    except OSError:
        return 0
    return int.from_bytes(digest, "little")
