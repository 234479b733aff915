"""The places of classes and splits in a user's folder."""

import dataclasses
import hashlib
import itertools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gc_net.data.names import some
from gc_net.data.splits import DataError

if TYPE_CHECKING:
    from gc_net.data.listing import Listing

_TRAIN_NAMES = ("train", "training")
# `test` first: with three parts, `val` was for choices before the final figure.
_TEST_NAMES = ("test", "testing", "val", "valid", "validation")


@dataclasses.dataclass(frozen=True)
class Part:
    """A folder of class folders.

    Attributes:
        prefix: Folder below the data folder with a final `/`, or `""` for the data folder itself.
        counts: {class name: number of images, at any depth}, also for folders without any.
        loose: Number of images outside any class's folder.
    """

    prefix: str
    counts: dict[str, int]
    loose: int

    @property
    def filled(self) -> list[str]:
        return [name for name, count in self.counts.items() if count]

    def class_of(self, folder: str) -> str | None:
        """Return the name of the class that `folder` belongs to, or None."""
        inside = folder.startswith(self.prefix) and folder != self.prefix.rstrip("/")
        return folder[len(self.prefix) :].partition("/")[0] if inside else None


@dataclasses.dataclass(frozen=True)
class Layout:
    """The part that each split is read from; `test` is None if it is a part of `train`.

    Attributes:
        train: `Part`.
        test: `Part` or None.
        left_out: Folders with images that belong to no split.
    """

    train: Part
    test: Part | None
    left_out: list[str]


def find_layout(listing: "Listing") -> Layout:
    """Return the `Layout` of a `Listing`.

    `train/` beside `test/` or `val/` is the training split. The other one, if it has folders of
    classes, is the test split. A `train/` without such a split is divided by seed, and so is a
    folder that holds the classes itself: there, `train` may be the name of a class.
    """
    whole = part(listing, "")
    by_lower_name = {name.lower(): name for name in whole.filled}
    inner = {
        lower: part(listing, by_lower_name[lower] + "/")
        for lower in (*_TRAIN_NAMES, *_TEST_NAMES)
        if lower in by_lower_name
    }
    train = next((inner[name] for name in _TRAIN_NAMES if name in inner), None)
    tests = [inner[name] for name in _TEST_NAMES if name in inner]
    if train is None or not (tests or _holds_classes(listing, whole, train)):
        return Layout(whole, None, [])
    test = next((split for split in tests if split.filled), None)
    used = {chosen.prefix.rstrip("/") for chosen in (train, test) if chosen}
    return Layout(train, test, [name for name in whole.filled if name not in used])


def _holds_classes(listing, whole, train):
    """Return whether `train` is a folder of classes, not a class, if there is no test split.

    A single folder of images beside it, or several that are each smaller than any class in it, are
    no classes but other pictures, such as figures. Several that are as large as the classes in it
    are classes, and `train` is one more, unless they repeat its folders. All else is an error.
    """
    beside = [part(listing, f"{name}/") for name in whole.filled if f"{name}/" != train.prefix]
    if not beside:
        return bool(train.filled)
    if len(train.filled) < 2:
        return False
    smallest = min(train.counts[name] for name in train.filled)
    names = [folder.prefix.rstrip("/") for folder in beside]
    large = [name for name in names if whole.counts[name] >= smallest]
    inside = {name for folder in beside for name in folder.filled}
    if len(large) == len(beside) > 1 and inside.isdisjoint(train.filled):
        return False
    if not inside and (len(beside) == 1 or not large):
        return True
    name = train.prefix.rstrip("/")
    raise DataError(
        f"{listing.root} holds the folder {name!r} with {len(train.filled)} folders of images "
        f"({some(train.filled)}), and beside it {some(names)}: either {name!r} holds the classes, "
        f"or it is one of them. Expected {name}/<class>/<image> with nothing but 'test' or 'val' "
        f"beside it, or <class>/<image>. For the first, give "
        f"data_dir={os.path.join(listing.root, name)} or move the rest elsewhere; for the second, "
        f"rename {name!r}."
    )


def part(listing: "Listing", prefix: str) -> Part:
    """Return the `Part` of a `Listing` below `prefix`."""
    counts, loose = {}, 0
    empty = Part(prefix, counts, 0)
    for folder, count in zip(listing.folders, listing.counts.tolist(), strict=True):
        name = empty.class_of(folder)
        if name is not None:
            counts[name] = counts.get(name, 0) + count
        elif folder == prefix.rstrip("/"):
            loose = count
    return Part(prefix, dict(sorted(counts.items())), loose)


def check_classes(data_dir: str, train: Part, listing: "Listing") -> None:
    """Raise a `DataError` unless `train` has two classes with images."""
    folder = os.path.join(data_dir, train.prefix)
    layout = f"Expected {os.path.join(folder, '<class>', '<image>')}, two classes or more."
    if not len(listing.files):
        raise DataError(f"No images in {data_dir}; found {listing.other_files()}. {layout}")
    if not train.filled:
        raise DataError(
            f"{folder} holds {train.loose:,} images but no folders of classes. Move each image "
            f"into a folder named after its class. {layout}"
        )
    empty = [name for name, count in train.counts.items() if not count]
    if empty:
        raise DataError(
            f"{len(empty)} of the {len(train.counts)} class folders in {folder} hold no image: "
            f"{some(empty)}. Add images, or remove these folders."
        )
    if len(train.filled) == 1:
        only = train.filled[0]
        below = part(listing, f"{train.prefix}{only}/").filled
        hint = f" Did you mean data_dir={os.path.join(folder, only)}?" if len(below) > 1 else ""
        raise DataError(
            f"{folder} holds one class, {only!r}; an object differs from the rest of the "
            f"image only if it distinguishes classes.{hint} {layout}"
        )


def seeded_test_mask(
    files: Sequence[str], labels: np.ndarray, seed: int, fraction: float
) -> np.ndarray:
    """Return a bool [N]: which images are test images.

    Each class gives `fraction` of its images, at least one, and keeps at least one. An image's
    rank in its class depends only on the seed and its own name. So images in other classes change
    nothing, and another image in the class moves at most one of the others.
    """
    salt = f"{seed}:".encode()
    ranks = np.fromiter(
        (_hash64(salt + file) for file in files.tolist()), dtype=np.uint64, count=len(files)
    )
    order = np.lexsort((ranks, labels))
    starts = np.searchsorted(labels[order], np.arange(labels.max() + 2))
    is_test = np.zeros(len(files), dtype=bool)
    for start, stop in itertools.pairwise(starts.tolist()):
        count = stop - start
        num_test = min(max(1, round(count * fraction)), count - 1) if count > 1 else 0
        is_test[order[start : start + num_test]] = True
    return is_test


def _hash64(data):
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
