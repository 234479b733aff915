"""Finding the image files below a folder, a million of them if need be.

Names are kept in one fixed-width array, about 30 bytes an ImageNet file, and Python objects live
only as long as the folder they come from is being read.
"""

import collections
import concurrent.futures
import dataclasses
import os

import numpy as np

from gc_net.datasets.base import DataError
from gc_net.datasets.files import some

# What archives, file managers and network drives leave behind.
IGNORED_NAMES = frozenset(["__macosx", "thumbs.db", "desktop.ini", "@eadir", "$recycle.bin"])
# Reading folders waits for the disk or the network more than it computes.
_THREADS = 16


@dataclasses.dataclass(frozen=True)
class Listing:
    """Image files below a folder, sorted by folder and then by name.

    Attributes:
        root: Absolute path of the folder.
        folders: [D] folders relative to `root`, which is `""` itself, in ascending order.
        stamps: [D, 3] int64 times and size of each folder, which change when an entry does.
        counts: [D] int64 number of image files directly in each folder.
        files: [N] UTF-8 bytes relative to `root`, `/` between folders.
        others: Number of files that are not images by their suffix, by suffix.
        repeated: `"a = b"` for each folder a that was passed over, since it is b by another name.
        undecodable: Names that are not UTF-8, which are passed over.
    """

    root: str
    folders: list[str]
    stamps: np.ndarray
    counts: np.ndarray
    files: np.ndarray
    others: dict[str, int]
    repeated: list[str]
    undecodable: list[str]

    def other_files(self):
        """Return what was found beside images, as text."""
        return (
            some(
                f"{count:,} {suffix or 'suffixless'} files" for suffix, count in self.others.items()
            )
            or "no files"
        )


def list_folder(root, extensions):
    """Return the `Listing` of the files below `root` that end in one of `extensions`.

    Hidden files, and what file managers leave behind, are ignored. Links to folders are followed,
    but no folder is entered twice, so that a link to a parent ends nothing but itself.

    Args:
        root: Folder to read, at any depth.
        extensions: Lower-case suffixes with their dot.
    """
    root = os.path.abspath(os.fspath(root))
    scans, seen, repeated = {}, {}, []
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        level = [""]
        while level:
            fresh = []
            for folder, status in zip(
                level, pool.map(lambda f: _stat(root, f), level), strict=True
            ):
                first = seen.setdefault((status.st_dev, status.st_ino), folder)
                if first == folder:
                    # Taken before the entries are read: a change meanwhile makes it look stale.
                    fresh.append((folder, _stamp(status)))
                else:
                    repeated.append(f"{folder} = {first or '.'}")
            level = []
            found = pool.map(lambda item: _scan(root, item[0], extensions), fresh)
            for (folder, stamp), scan in zip(fresh, found, strict=True):
                scans[folder] = (stamp, scan)
                level.extend(scan.subfolders)
    return _join(root, scans, repeated)


def folder_stamps(root, folders):
    """Return the [D, 3] `Listing.stamps` of `folders` as they are now; `OSError` if one is gone."""
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        stamps = pool.map(lambda folder: _stamp(os.stat(os.path.join(root, folder))), folders)
        return np.array(list(stamps), dtype=np.int64).reshape(-1, 3)


@dataclasses.dataclass(frozen=True)
class _Scan:
    names: np.ndarray
    subfolders: list[str]
    others: collections.Counter
    undecodable: list[str]


def _scan(root, folder, extensions):
    prefix = f"{folder}/" if folder else ""
    names, folders, others, undecodable = [], [], collections.Counter(), []
    try:
        with os.scandir(os.path.join(root, folder)) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith(".") or name.lower() in IGNORED_NAMES:
                    continue
                suffix = name[name.rfind(".") :].lower() if "." in name else ""
                try:
                    encoded = (prefix + name).encode()
                except UnicodeEncodeError:
                    undecodable.append(prefix + name.encode("ascii", "backslashreplace").decode())
                    continue
                if entry.is_dir():
                    # Links last, so that a folder is known by its own name rather than a link's.
                    folders.append((entry.is_symlink(), prefix + name))
                elif suffix in extensions and _is_file(entry):
                    names.append(encoded)
                else:
                    others[suffix] += 1
    except OSError as error:
        raise _unreadable(root, folder, error) from error
    names = np.array(sorted(names), dtype=np.bytes_) if names else np.empty(0, "S1")
    return _Scan(names, [name for _, name in sorted(folders)], others, undecodable)


def _is_file(entry):
    # A dangling link counts, to be found unreadable later; a pipe, which would block, does not.
    return entry.is_file() or (entry.is_symlink() and not os.path.exists(entry.path))


def _join(root, scans, repeated):
    folders = sorted(scans)
    counts = np.array([len(scans[folder][1].names) for folder in folders], dtype=np.int64)
    width = max(scans[folder][1].names.itemsize for folder in folders)
    files = np.empty(counts.sum(), dtype=f"S{width}")
    others, undecodable, stamps, start = collections.Counter(), [], [], 0
    for folder, count in zip(folders, counts.tolist(), strict=True):
        stamp, scan = scans.pop(folder)
        files[start : start + count] = scan.names
        start += count
        stamps.append(stamp)
        others.update(scan.others)
        undecodable.extend(scan.undecodable)
    return Listing(
        root=root,
        folders=folders,
        stamps=np.array(stamps, dtype=np.int64).reshape(-1, 3),
        counts=counts,
        files=files,
        others=dict(others),
        repeated=repeated,
        undecodable=sorted(undecodable),
    )


def _stat(root, folder):
    try:
        return os.stat(os.path.join(root, folder))
    except OSError as error:
        raise _unreadable(root, folder, error) from error


def _stamp(status):
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size


def _unreadable(root, folder, error):
    path = os.path.join(root, folder)
    return DataError(f"The folder {path} cannot be read: {error.strerror}.")
