"""Decoded, squashed images on disk, so that later epochs decode nothing.

A cache is a folder of three files: `images.bin` holds one square per image, `records.bin` says
which squares are filled, and `meta.json` names what they were made from. It fills as images
are first read and may be used by several processes at once.

A square counts as filled only if its record's checksum fits its pixels. After a kill between or
within two writes, or after a power cut, such squares are decoded again; no torn picture is used.
Records also hold size and time of the source file: an edited file is read again.
"""

import contextlib
import errno
import hashlib
import json
import logging
import os
import shutil
import tempfile
import threading
import time
import uuid
import zlib
from typing import TYPE_CHECKING

import numpy as np

from gc_net.data.decode import DECODER_VERSION
from gc_net.data.splits import DataError, ImageError
from gc_net.data.transforms import SQUASH_VERSION
from gc_net.locks import try_lock

if TYPE_CHECKING:
    from gc_net.data.splits import Split

_FORMAT = 1
_RECORD = np.dtype(
    [
        ("checksum", "<u4"),
        ("height", "<u4"),  # of the original image; 0 while the square is not filled
        ("width", "<u4"),
        ("unused", "<u4"),
        ("file_size", "<i8"),
        ("file_time", "<i8"),
    ]
)
_LOCK, _NEW, _OLD = ".lock", ".new-", ".old-"
_log = logging.getLogger("gc_net")


class ImageCache:
    """Squashed images of one split, by index.

    Args:
        folder: Where caches are kept; each split, size and decoder gets a folder of its own in it.
        split: The `Split` whose images it holds.
        resize_size: Side the images are squashed to.

    Raises:
        DataError: If nothing can be written to `folder`.

    Example:
        cache = ImageCache("~/.cache/gc_net", split, resize_size=256)
        for epoch in range(epochs):
            training_batches(split, image_size=224, batch_size=32, epoch=epoch, cache=cache)
    """

    def __init__(self, folder: str, split: "Split", resize_size: int):
        self.split = split
        self.resize_size = resize_size
        self._square_bytes = resize_size * resize_size * 3
        self._lock = threading.Lock()
        self._verified = np.zeros(len(split), bool)
        self._warned = False
        key = _key(split, resize_size)
        name = f"{split.name}-{resize_size}px-{_digest(key)[:16]}"
        self.path = os.path.join(os.path.abspath(os.path.expanduser(folder)), name)
        try:
            self._open(key)
        except OSError as error:
            raise DataError(
                f"The image cache cannot be written: {error}. Choose another folder than {folder}, "
                "or train without a cache."
            ) from error

    def get(self, index: int) -> tuple[np.ndarray, tuple[int, int]] | None:
        """Return the squashed image [R, R, 3] and its original (height, width), or None."""
        record = _read(self._records_file, _RECORD, (), index * _RECORD.itemsize)
        if record is None or record["height"] == 0:
            return None
        size = (int(record["height"]), int(record["width"]))
        shape = (self.resize_size, self.resize_size, 3)
        image = _read(self._images_read, np.uint8, shape, index * self._square_bytes)
        if image is None:
            return None
        if not self._verified[index]:
            if (record["file_size"], record["file_time"]) != self.split.file_stamp(index):
                return None
            if record["checksum"] != _checksum(image, record):
                self._warn(f"holds damaged images, {self.split.file(index)} first; they are redone")
                return None
            self._verified[index] = True
        return image, size

    def put(self, index: int, image: np.ndarray, size: tuple[int, int]) -> None:
        """Store a squashed image and the (height, width) of its original.

        A full disk is no error: the cache keeps what fits and warns once.
        """
        images_file = self._images_file  # another thread may find the disk full meanwhile
        if images_file is None:
            return
        record = np.zeros((), _RECORD)
        record["height"], record["width"] = size
        record["file_size"], record["file_time"] = self.split.file_stamp(index)
        image = np.ascontiguousarray(image)
        record["checksum"] = _checksum(image, record)
        try:
            _write(images_file, image, index * self._square_bytes)
            _write(self._records_file, record, index * _RECORD.itemsize)
        except OSError as error:
            self._images_file = None
            self._warn(f"is no longer written: {error}; what it holds so far is still used")
        else:
            self._verified[index] = True

    def fits(self, split: "Split", resize_size: int) -> bool:
        """Return whether these are the images of `split`, squashed to `resize_size`."""
        same = self.split is split or np.array_equal(self.split.files, split.files)
        return same and self.resize_size == resize_size

    def filled(self) -> int:
        """Return how many images have been stored."""
        records = _read(self._records_file, _RECORD, (len(self.split),), 0)
        return 0 if records is None else int(np.count_nonzero(records["height"]))

    def _warn(self, what):
        with self._lock:
            if self._warned:
                return
            self._warned = True
        _log.warning("The image cache %s %s.", self.path, what)

    def _open(self, key):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        sizes = {
            "images.bin": len(self.split) * self._square_bytes,
            "records.bin": len(self.split) * _RECORD.itemsize,
        }
        if _fault(self.path, key, sizes):
            with _alone(os.path.dirname(self.path)):
                self._make(key, sizes)
        images_path, records_path = (os.path.join(self.path, name) for name in sizes)
        # No memory maps: if the disk is full or has gone, touching one ends the process.
        self._images_read = open(images_path, "rb", buffering=0)  # noqa: SIM115
        try:
            self._images_file = open(images_path, "r+b", buffering=0)  # noqa: SIM115
            self._records_file = open(records_path, "r+b", buffering=0)  # noqa: SIM115
        except PermissionError:  # a cache shared for reading
            self._images_file = None
            self._records_file = open(records_path, "rb", buffering=0)  # noqa: SIM115

    def _make(self, key, sizes):
        """Make the cache, or make it again, unless another process has done so meanwhile."""
        _clear_left_overs(os.path.dirname(self.path))
        if os.path.lexists(self.path):
            fault = _fault(self.path, key, sizes)
            if fault is None:
                return
            _log.warning("The image cache %s is rebuilt: %s.", self.path, fault)
            _discard(self.path)
        self._warn_of_little_space(sizes["images.bin"])
        _create(self.path, key, sizes)

    def _warn_of_little_space(self, needed):
        free = shutil.disk_usage(os.path.dirname(self.path)).free
        if free < needed:
            _log.warning(
                "The image cache %s needs %.1f GB, and %.1f GB are free. It will hold what fits; "
                "the other images are decoded in every epoch.",
                self.path,
                needed / 1e9,
                free / 1e9,
            )


def _key(split, resize_size):
    """Return what the pixels of a cache depend on, besides the content of the files."""
    names = hashlib.sha256()
    for start in range(0, len(split), 65536):
        names.update(b"\0".join(bytes(file) for file in split.files[start : start + 65536]) + b"\0")
    key = {
        "format": _FORMAT,
        "decoder": DECODER_VERSION,
        "squash": SQUASH_VERSION,
        "resize_size": resize_size,
        "num_images": len(split),
        "names": names.hexdigest(),
    }
    if not os.path.exists(os.path.join(split.root, split.file(0))):
        # Drawn images have no file whose time shows a change.
        samples = hashlib.sha256()
        for index in sorted({0, len(split) // 2, len(split) - 1}):
            with contextlib.suppress(ImageError):
                samples.update(np.ascontiguousarray(split.read(index)))
        key["samples"] = samples.hexdigest()
    return key


def _digest(key):
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def _checksum(image, record):
    details = [int(record[name]) for name in _RECORD.names if name != "checksum"]
    return zlib.crc32(image, zlib.crc32(np.array(details, np.int64)))


def _write(file, array, offset):
    data = memoryview(array).cast("B") if array.ndim else array.tobytes()
    written = os.pwrite(file.fileno(), data, offset)
    if written != len(data):
        raise OSError(errno.ENOSPC, "the disk is full")


def _read(file, dtype, shape, offset):
    """Return an array of a file from `offset` on, or None if it cannot be read in full."""
    array = np.empty(shape, dtype)
    try:
        data = os.pread(file.fileno(), array.nbytes, offset)
    except OSError:
        return None
    return np.frombuffer(data, dtype).reshape(shape) if len(data) == array.nbytes else None


@contextlib.contextmanager
def _alone(folder):
    """Wait until no other process makes a cache in `folder`; the lock goes with its process."""
    try:
        file = open(os.path.join(folder, _LOCK), "ab")  # noqa: SIM115
    except PermissionError:  # a folder shared for reading
        yield
        return
    with file:
        while not try_lock(file):
            time.sleep(0.05)
        yield


def _clear_left_overs(folder):
    """Delete what killed processes left half made or half deleted; the lock must be held."""
    for name in os.listdir(folder):
        if name.startswith((_NEW, _OLD)):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def _fault(path, key, sizes):
    """Return what is wrong with an existing cache, or None."""
    try:
        with open(os.path.join(path, "meta.json"), encoding="utf-8") as file:
            found = json.load(file)
        if found != key:
            return "meta.json describes another cache"
        for name, size in sizes.items():
            actual = os.path.getsize(os.path.join(path, name))
            if actual != size:
                return f"{name} has {actual} bytes, expected {size}"
    except (OSError, ValueError) as error:
        return f"it is damaged ({error})"
    return None


def _create(path, key, sizes):
    """Make an empty cache under a temporary name, then move it into place all at once."""
    # Not with mkdtemp, whose folders only their owner can read: a cache may be shared.
    temporary = os.path.join(os.path.dirname(path), f"{_NEW}{uuid.uuid4().hex}")
    os.mkdir(temporary)
    try:
        for name, size in sizes.items():
            with open(os.path.join(temporary, name), "wb") as file:
                file.truncate(size)  # a hole: takes no space until it is written
        with open(os.path.join(temporary, "meta.json"), "w", encoding="utf-8") as file:
            json.dump(key, file, indent=1)
        os.rename(temporary, path)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        if not os.path.isdir(path):  # else another process was faster, which is as good
            raise


def _discard(path):
    """Move a cache aside, then delete it; processes that have it open keep using it."""
    doomed = tempfile.mkdtemp(prefix=_OLD, dir=os.path.dirname(path))
    os.rename(path, os.path.join(doomed, "cache"))
    shutil.rmtree(doomed, ignore_errors=True)
