"""An index of a folder's image files, so that a million files are listed quickly.

The index lies in the user's cache folder, because data are often read-only. It holds the times of
every folder. A folder's times change when an entry is added, removed or renamed. So it is enough to
compare them, a thousand `stat` calls for ImageNet, instead of reading a million entries. They are
compared for equality: a clock that jumps cannot make an old index look new.
"""

import hashlib
import json
import os
import time
import warnings

import numpy as np

from gc_net.atomic_files import replaced_file
from gc_net.data.decode import IMAGE_EXTENSIONS
from gc_net.data.listing import Listing, folder_stamps, list_folder

_MAGIC = b"gc_net index 1\n"
_DIGEST_SIZE = 32
# Coarser than the times of any common file system. See `_settled`.
_SETTLING_NANOSECONDS = 2_000_000_000


def list_images(root: str, cache_dir: str | None = None, min_files: int = 10_000) -> Listing:
    """Return the `Listing` of the images below `root`, from its index if that is up to date.

    Args:
        root: Folder to list, at any depth.
        cache_dir: Where indexes are kept; `$XDG_CACHE_HOME/gc_net` or `~/.cache/gc_net` if None.
        min_files: Smaller folders are read each time, which takes milliseconds.

    Example:
        listing = list_images("ILSVRC/Data/CLS-LOC/train")
        listing.files[0]  # b"n01440764/n01440764_10026.JPEG"
    """
    root = os.path.abspath(os.fspath(root))
    key = json.dumps([root, sorted(IMAGE_EXTENSIONS)])
    path = index_path(key, cache_dir)
    listing = _load(path, key)
    if listing is not None and _is_fresh(listing):
        return listing
    del listing  # a million old names need not stay in memory beside the new ones
    listing = list_folder(root, IMAGE_EXTENSIONS)
    if len(listing.files) >= min_files and _settled(listing):
        _save(path, key, listing)
    return listing


def cache_home() -> str:
    """Return the folder for files that can be computed again."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "gc_net")


def index_path(key: str, cache_dir: str | None = None) -> str:
    digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
    return os.path.join(cache_dir or cache_home(), "index", f"{digest[:32]}.index")


def _is_fresh(listing):
    try:
        return np.array_equal(folder_stamps(listing.root, listing.folders), listing.stamps)
    except OSError:
        return False


def _settled(listing):
    """Return whether every folder's times would change if a file were added right now.

    File systems count time in ticks of up to two seconds. A file that is added in the tick in which
    its folder was read leaves no trace. Such a listing is used, but not kept.
    """
    return bool(np.all(np.abs(time.time_ns() - listing.stamps[:, :2]) > _SETTLING_NANOSECONDS))


def _save(path, key, listing):
    header = {
        "key": key,
        "root": listing.root,
        "folders": listing.folders,
        "num_files": len(listing.files),
        "width": listing.files.itemsize,
        "others": listing.others,
        "repeated": listing.repeated,
        "undecodable": listing.undecodable,
    }
    header = json.dumps(header).encode()
    parts = [len(header).to_bytes(8, "little"), header, listing.stamps, listing.counts]
    parts.append(listing.files)
    digest = hashlib.blake2b(digest_size=_DIGEST_SIZE)
    for part in parts:
        digest.update(part)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with replaced_file(path, "wb") as file:
            for part in (_MAGIC, digest.digest(), *parts):
                file.write(part)
    except OSError as error:
        warnings.warn(
            f"The index of {listing.root} could not be written to {path} ({error.strerror}), so "
            "the folder is read again each time. Set XDG_CACHE_HOME to a folder that can be "
            "written.",
            stacklevel=3,
        )


def _load(path, key):
    """Return the `Listing` in `path`, or None if there is none, or if it is damaged."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    start = len(_MAGIC) + _DIGEST_SIZE
    body = memoryview(data)[start:]
    digest = hashlib.blake2b(body, digest_size=_DIGEST_SIZE).digest()
    if not data.startswith(_MAGIC) or digest != data[len(_MAGIC) : start]:
        warnings.warn(f"The index {path} is damaged; it is built again.", stacklevel=3)
        return None
    header_end = 8 + int.from_bytes(body[:8], "little")
    header = json.loads(bytes(body[8:header_end]))
    if header.pop("key") != key:
        return None
    num_folders, num_files = len(header["folders"]), header.pop("num_files")
    stamps_end = header_end + 24 * num_folders
    counts_end = stamps_end + 8 * num_folders
    return Listing(
        **{name: value for name, value in header.items() if name != "width"},
        stamps=np.frombuffer(body[header_end:stamps_end], np.int64).reshape(-1, 3),
        counts=np.frombuffer(body[stamps_end:counts_end], np.int64),
        files=np.frombuffer(body[counts_end:], f"S{header['width']}", count=num_files),
    )
