"""Finding the image files below a folder, even a million of them.

Names are kept in one fixed-width array, about 30 bytes an ImageNet file. Python objects exist only
while the folder they come from is read.
"""

import collections
import concurrent.futures
import dataclasses
import os
import warnings
from collections.abc import Collection, Iterable

import numpy as np

from gc_net.data.names import printable, some
from gc_net.data.pillow_formats import HEIC_EXTENSIONS, INSTALL_HEIC
from gc_net.data.splits import DataError

# What archives, file managers and network drives leave behind.
IGNORED_NAMES = frozenset(["__macosx", "thumbs.db", "desktop.ini", "@eadir", "$recycle.bin"])
# Pictures that people do have, and that need converting first.
_UNREAD_PICTURES = frozenset(
    HEIC_EXTENSIONS
    | {".jxl", ".jp2", ".svg", ".psd", ".raw", ".dng", ".cr2", ".cr3"}
    | {".nef", ".arw", ".orf", ".raf", ".rw2"}
)
# To read a folder is mostly to wait for the disk or the network.
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
        repeated: `"a = b"` for each folder a that was skipped, because it is b by another name.
        undecodable: Images and folders that were skipped, because their names are not UTF-8.
    """

    root: str
    folders: list[str]
    stamps: np.ndarray
    counts: np.ndarray
    files: np.ndarray
    others: dict[str, int]
    repeated: list[str]
    undecodable: list[str]

    def other_files(self) -> str:
        """Return what was found beside images, as text."""
        return (
            some(
                f"{count:,} {suffix or 'suffixless'} files" for suffix, count in self.others.items()
            )
            or "no files"
        )

    def warn_of_left_out(self, more: Iterable[str] = (), stacklevel: int = 2) -> None:
        """Warn in one message of all that was skipped, and why.

        Args:
            more: What else is left out, in the caller's words.
            stacklevel: As for `warnings.warn`, counted from the caller.
        """
        messages = list(more)
        if self.repeated:
            messages.append(
                f"links to folders that are listed already: {some(map(printable, self.repeated))}"
            )
        if self.undecodable:
            messages.append(f"names that are not UTF-8: {some(map(printable, self.undecodable))}")
        unread = {s: count for s, count in self.others.items() if s in _UNREAD_PICTURES}
        if unread:
            found = some(f"{count:,} {suffix}" for suffix, count in sorted(unread.items()))
            messages.append(f"pictures to convert to JPEG or PNG first: {found}")
            if HEIC_EXTENSIONS & set(unread):
                messages.append(f"`{INSTALL_HEIC}` lets HEIC be read as it is")
        if messages:
            warnings.warn(
                f"Left out of {self.root}: {'; '.join(messages)}.", stacklevel=stacklevel + 1
            )


def list_folder(root: str, extensions: Collection[str]) -> Listing:
    """Return the `Listing` of the files below `root` that end in one of `extensions`.

    Hidden files and the files of file managers are ignored. Links to folders are followed, but no
    folder is entered twice, so a link to a parent folder does no harm.

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
                    # Taken before the entries are read, so a change meanwhile makes it look stale.
                    fresh.append((folder, _stamp(status)))
                else:
                    repeated.append(f"{folder} = {first or '.'}")
            level = []
            found = pool.map(lambda item: _scan(root, item[0], extensions), fresh)
            for (folder, stamp), scan in zip(fresh, found, strict=True):
                scans[folder] = (stamp, scan)
                level.extend(scan.subfolders)
    return _join(root, scans, repeated)


def unread_pictures(root: str, extensions: Iterable[str]) -> list[str]:
    """Return the pictures below `root` that cannot be read, by their paths below it.

    Args:
        root: Folder to read, at any depth.
        extensions: Lower-case suffixes, with their dot, of those that can be read.
    """
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(name for name in subfolders if not _is_ignored(name))
        inside = os.path.relpath(folder, root)
        for name in sorted(names):
            suffix = os.path.splitext(name)[1].lower()
            if suffix in _UNREAD_PICTURES - set(extensions) and not _is_ignored(name):
                found.append(name if inside == os.curdir else os.path.join(inside, name))
    return found


def folder_stamps(root: str, folders: Iterable[str]) -> np.ndarray:
    """Return the [D, 3] `Listing.stamps` of `folders` as they are now; `OSError` if one is gone."""
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        stamps = pool.map(lambda folder: _stamp(os.stat(os.path.join(root, folder))), folders)
        return np.array(list(stamps), dtype=np.int64).reshape(-1, 3)


def _is_ignored(name):
    return name.startswith(".") or name.lower() in IGNORED_NAMES


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
                if _is_ignored(name):
                    continue
                suffix = name[name.rfind(".") :].lower() if "." in name else ""
                is_folder = _is_folder(entry)
                if not is_folder and not (suffix in extensions and _is_file(entry)):
                    others[_escaped(suffix)] += 1
                    continue
                try:
                    encoded = (prefix + name).encode()
                except UnicodeEncodeError:
                    undecodable.append(_escaped(prefix + name))
                    continue
                if is_folder:
                    # Links last, so that a folder is known by its own name, not by a link's.
                    folders.append((entry.is_symlink(), prefix + name))
                else:
                    names.append(encoded)
    except OSError as error:
        raise _unreadable(root, folder, error) from error
    names = np.array(sorted(names), dtype=np.bytes_) if names else np.empty(0, "S1")
    return _Scan(names, [name for _, name in sorted(folders)], others, undecodable)


def _escaped(text):
    return text.encode("utf-8", "backslashreplace").decode()


def _is_folder(entry):
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _is_file(entry):
    # A link to nothing or to itself counts, so that it is named later as unreadable. A pipe, which
    # would block, does not count.
    try:
        return entry.is_file() or (entry.is_symlink() and not os.path.exists(entry.path))
    except OSError:
        return entry.is_symlink()


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
