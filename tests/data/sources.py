"""Splits for testing what reads them: of files or drawn, counting reads, some unreadable."""

import collections

import numpy as np

from gc_net.data.decode import FileReader
from gc_net.data.splits import ImageError, Split, Truth
from tests.data import encoded


def drawn_split(num_images=20, unreadable=(), height=40, width=60):
    """Return a split of drawn images and a counter of how often each index was read."""
    reads = collections.Counter()

    def read(index):
        reads[index] += 1
        if index in unreadable:
            raise ImageError(f"broken on purpose, number {index}")
        return encoded.photo(height + index % 3, width, seed=index)

    files = np.array([f"drawn-{index}".encode() for index in range(num_images)])
    labels = np.arange(num_images, dtype=np.int32) % 5
    names = tuple("abcde")
    return Split("train", names, labels, files, "drawn", read), reads


def file_split(folder, num_images=8):
    """Write JPEGs of different sizes and return the split of them."""
    files = [f"{index} é.jpg" for index in range(num_images)]
    for index, file in enumerate(files):
        image = encoded.photo(40 + 7 * index, 60, seed=index)
        (folder / file).write_bytes(encoded.jpeg(image))
    files = np.array([file.encode() for file in files])
    labels = np.arange(num_images, dtype=np.int32)
    names = tuple(map(str, labels))
    return Split("train", names, labels, files, str(folder), FileReader(str(folder), files))


def counted(split):
    """Return a copy of a split, and the list that every read of it is noted in."""
    reads = []

    def read(index):
        reads.append(index)
        return split.read(index)

    return Split(split.name, split.class_names, split.labels, split.files, split.root, read), reads


def truth_of(split, boxes_per_image=(1, 2, 0, 3)):
    rng = np.random.default_rng(0)
    counts = np.resize(boxes_per_image, len(split))
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    corners = np.sort(rng.uniform(0, 40, (starts[-1], 2, 2)), axis=1)
    return Truth(corners.reshape(-1, 4).astype(np.float32), starts)
