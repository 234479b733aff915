"""Checks whether a copy of CUB-200-2011 is complete, and unpacks its archive.

Size and checksum of the archive are those that several dataset libraries publish. Nobody publishes
checksums of the lists in it. So lists are verified by their structure and counts, and their
checksums are shown, to compare two copies with each other.
"""

import dataclasses
import hashlib
import os
import shutil
import tarfile
import tempfile
import zlib

import numpy as np

from gc_net.data.names import some
from gc_net.data.splits import DataError
from gc_net.datasets.cub import FOLDER, missing_files, read_boxes, read_lists
from gc_net.datasets.image_files import data_folder
from gc_net.progress import track

ARCHIVE_BYTES = 1_150_585_339
ARCHIVE_SHA256 = "0c685df5597a8b24909f6a7c9db6d11e008733779a671760afef78feb49bf081"
NUM_CLASSES = 200
NUM_IMAGES = {"train": 5_994, "test": 5_794}
LISTS = (
    "classes.txt",
    "images.txt",
    "image_class_labels.txt",
    "train_test_split.txt",
    "bounding_boxes.txt",
)


@dataclasses.dataclass
class Findings:
    """The findings: `lines` to read, and those of them that are `problems`."""

    lines: list[str] = dataclasses.field(default_factory=list)
    problems: list[str] = dataclasses.field(default_factory=list)

    def add(self, text: str, problem: bool = False) -> None:
        self.lines.append(f"{'!' if problem else ' '} {text}")
        if problem:
            self.problems.append(text)

    def count(self, what: str, found: int, expected: int) -> None:
        """Compare a count with the one in the complete dataset."""
        lacking = f", {expected - found:,} missing" if found < expected else ""
        self.add(f"{what}: {found:,} of {expected:,}{lacking}", found != expected)

    def text(self) -> str:
        """Return the findings, with problems marked by `!`, and the verdict."""
        if not self.problems:
            return "\n".join([*self.lines, "The copy is complete."])
        verdict = "The copy is not complete; lines that begin with ! say what differs."
        return "\n".join([*self.lines, verdict])


def prepare(
    data_dir: str | None = None, archive: str | None = None, output: str | None = None
) -> Findings:
    """Return the `Findings` on an unpacked copy, or on an archive and what is unpacked from it.

    Args:
        data_dir: The `CUB_200_2011` folder or the one that holds it.
        archive: `CUB_200_2011.tgz`; given instead of `data_dir`.
        output: Folder to unpack the archive into; if None, only the archive is checked.
    """
    if archive is None:
        return verify_copy(data_folder(data_dir, "images.txt", FOLDER))
    findings = verify_archive(archive)
    if output is not None:
        unpacked = verify_copy(unpack(archive, output))
        findings.lines += unpacked.lines
        findings.problems += unpacked.problems
    return findings


def verify_archive(path: str | os.PathLike) -> Findings:
    """Return the `Findings` on a downloaded `CUB_200_2011.tgz`, without unpacking it."""
    findings = Findings()
    try:
        size = os.path.getsize(path)
        findings.count("bytes of the archive", size, ARCHIVE_BYTES)
        if size == ARCHIVE_BYTES:
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            matches = digest == ARCHIVE_SHA256
            findings.add(f"SHA-256 {'as published' if matches else digest}", not matches)
    except OSError as error:
        raise DataError(f"The archive {path} cannot be read: {error.strerror}.") from error
    return findings


def verify_copy(data_dir: str) -> Findings:
    """Return the `Findings` on an unpacked copy: lists, counts, and image files.

    Args:
        data_dir: The `CUB_200_2011` folder itself.
    """
    findings = Findings()
    for name in LISTS:
        path = os.path.join(data_dir, name)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            findings.add(f"{name}: {os.path.getsize(path):,} bytes, SHA-256 {digest}")
        else:
            findings.add(f"{name} is missing", problem=True)
    try:
        lists = read_lists(data_dir)
        _verify_images(findings, data_dir, lists)
        if os.path.isfile(os.path.join(data_dir, "bounding_boxes.txt")):
            boxes = read_boxes(data_dir, lists.image_ids)
            findings.count("boxes", len(boxes), sum(NUM_IMAGES.values()))
    except DataError as error:
        findings.add(str(error), problem=True)
    return findings


def unpack(archive: str, output: str) -> str:
    """Unpack the archive into `output` and return its `CUB_200_2011` folder.

    Members that would be written elsewhere, links out of the folder, and devices are refused. The
    folder gets its name only when it is complete.
    """
    target = os.path.join(output, FOLDER)
    if os.path.exists(target):
        raise DataError(f"{target} exists already. Check it with --data_dir, or remove it first.")
    os.makedirs(output, exist_ok=True)
    temporary = tempfile.mkdtemp(dir=output, prefix=".unpacking-")
    try:
        with tarfile.open(archive) as tar:
            for member in track(tar, sum(NUM_IMAGES.values()), "Unpacking"):
                tar.extract(member, temporary, filter="data")
        if not os.path.isdir(os.path.join(temporary, FOLDER)):
            found = some(sorted(os.listdir(temporary))) or "nothing"
            raise DataError(f"{archive} holds no folder {FOLDER}; found {found}.")
        os.rename(os.path.join(temporary, FOLDER), target)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise DataError(f"{archive} could not be unpacked into {output}: {error}.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def _verify_images(findings, data_dir, lists):
    findings.count("classes", len(lists.class_names), NUM_CLASSES)
    root = os.path.join(data_dir, "images")
    files = np.array(lists.files, dtype=object)
    for name, chosen in (("train", lists.is_train), ("test", ~lists.is_train)):
        listed = files[chosen].tolist()
        missing = missing_files(root, listed)
        findings.count(f"{name} images in the lists", len(listed), NUM_IMAGES[name])
        findings.count(f"{name} images on disk", len(listed) - len(missing), NUM_IMAGES[name])
        if missing:
            findings.add(f"{name} images listed but not on disk: {some(missing)}", problem=True)
    # Folder names have the number of their class, so the lists can be compared with each other.
    astray = [
        file
        for file, label in zip(lists.files, lists.labels, strict=True)
        if file.partition(".")[0] != f"{label + 1:03d}"
    ]
    if astray and len(lists.class_names) == NUM_CLASSES:
        text = f"{len(astray):,} images whose label is not that of their folder: {some(astray)}"
        findings.add(text, problem=True)
    empty = [file for file in lists.files if _is_empty(os.path.join(root, file))]
    if empty:
        findings.add(f"{len(empty):,} image files of zero bytes: {some(empty)}", problem=True)


def _is_empty(path):
    return os.path.exists(path) and os.path.getsize(path) == 0
