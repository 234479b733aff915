"""The report of a dataset's check, as text and as JSON."""

import dataclasses
import errno
import json
import os
import tempfile
from collections.abc import Sequence

import numpy as np

from gc_net.atomic_files import replaced_file
from gc_net.data.names import some_lines
from gc_net.data.pillow_formats import HEIC_EXTENSIONS, INSTALL_HEIC

_SMALLEST_CLASSES = 5


@dataclasses.dataclass
class SplitReport:
    """The findings in one split.

    Attributes:
        class_counts: Images of each class, in label order.
        unreadable: `(file, reason)` each.
        sizes: `(file, width, height)` of the `"smallest"`, `"median"` and `"largest"` image.
        num_boxes: None if the split has no boxes.
        without_boxes: Files without a box, if the split has boxes.
        boxes_outside: `(file, box xyxy, width, height)` each.
        box_error: Why the boxes could not be read.
    """

    class_counts: list[int]
    unreadable: list[tuple[str, str]]
    sizes: dict[str, tuple[str, int, int]] = dataclasses.field(default_factory=dict)
    num_boxes: int | None = None
    without_boxes: list[str] = dataclasses.field(default_factory=list)
    boxes_outside: list[tuple[str, list[float], int, int]] = dataclasses.field(default_factory=list)
    box_error: str | None = None

    @property
    def num_images(self) -> int:
        return sum(self.class_counts)


@dataclasses.dataclass
class Report:
    """The findings in a dataset; its duplicates are groups of `"split: file"`.

    Attributes:
        unread: Pictures of kinds that cannot be read.
        batch_sizes, num_folds: Of the planned training, see `check_dataset`.
    """

    dataset: str
    root: str
    class_names: list[str]
    splits: dict[str, SplitReport]
    duplicates_across_splits: list[list[str]]
    duplicates_across_classes: list[list[str]]
    num_duplicates_within: int
    unread: list[str] = dataclasses.field(default_factory=list)
    batch_sizes: dict[str, int] = dataclasses.field(default_factory=dict)
    num_folds: int = 0

    @property
    def problems(self) -> list[tuple[str, Sequence[str]]]:
        """[(what, examples)], one for each kind of problem."""
        found = self._problems_of_training()
        for name, split in self.splits.items():
            found += [
                (f"unreadable {name} images", [f"{f}: {why}" for f, why in split.unreadable]),
                (f"{name} boxes that could not be read", [split.box_error] * bool(split.box_error)),
                (
                    f"{name} boxes outside their image",
                    [f"{f}: box {box}, image {w} × {h}" for f, box, w, h in split.boxes_outside],
                ),
            ]
        test = self.splits["test"]
        found += [
            ("test images without a box", test.without_boxes),
            ("files in both splits", [" = ".join(g) for g in self.duplicates_across_splits]),
            ("files under two labels", [" = ".join(g) for g in self.duplicates_across_classes]),
        ]
        return [(what, examples) for what, examples in found if examples]

    def _problems_of_training(self):
        """Return problems that would stop a training, or from which it would learn nothing."""
        counts = self.splits["train"].class_counts
        readable = self.splits["train"].num_images - len(self.splits["train"].unreadable)
        few = []
        for stage, batch_size in self.batch_sizes.items():
            count, folds = readable, ""
            if stage == "classifier" and self.num_folds:
                # A classifier of one fold is fitted on the images of the others.
                count -= -(-readable // self.num_folds)
                folds = f" in {self.num_folds} folds, {count:,} a classifier"
            if count < batch_size:
                few.append(
                    f"{readable:,} images{folds}, fewer than a batch of {batch_size}: add some, or "
                    f"give --{stage}_batch_size={max(1, count // 2)}"
                )
        alone = len(self.class_names) == 1
        single = [name for name, count in zip(self.class_names, counts, strict=True) if count == 1]
        return [
            (
                "a class without another one",
                [f"{self.class_names[0]}: add images of something else as a second class"] * alone,
            ),
            ("too few training images", few),
            (
                "classes with one training image",
                [f"{name}: add images, or leave the class out" for name in single],
            ),
            (f"pictures of kinds that are not read; {self._convert()}", self.unread),
        ]

    def _convert(self):
        heic = any(os.path.splitext(name)[1].lower() in HEIC_EXTENSIONS for name in self.unread)
        return f"convert them to JPEG{f', or `{INSTALL_HEIC}` for HEIC' if heic else ''}"

    def text(self, all_classes: bool = False, examples: int = 5) -> str:
        """Return the report as text.

        Args:
            all_classes: List the images of every class, not only of the smallest ones.
            examples: How many files to name for each kind of problem.
        """
        lines = [f"{self.dataset} {self.root}".rstrip(), f"{len(self.class_names):,} classes"]
        for name, split in self.splits.items():
            lines += ["", f"{name}: {split.num_images:,} images", *_class_lines(self, split)]
            lines += [
                f"  {key} image {width} × {height} ({file})"
                for key, (file, width, height) in split.sizes.items()
            ]
            boxes = "no boxes" if split.num_boxes is None else f"{split.num_boxes:,} boxes"
            lines.append(f"  {boxes}")
        if all_classes:
            lines += ["", *_class_table(self)]
        if self.num_duplicates_within:
            lines += [
                "",
                f"files that repeat another of their class: {self.num_duplicates_within:,}",
            ]
        for what, found in self.problems:
            lines += ["", f"{what}: {len(found):,}", *some_lines(found, examples)]
        lines += ["", "No problems found." if not self.problems else "Problems were found."]
        # File names may have characters that a terminal cannot print.
        return "\n".join(lines).encode("utf-8", "backslashreplace").decode()

    def save(self, path: str | os.PathLike) -> None:
        """Write the report, with every file it found, as JSON."""
        content = dataclasses.asdict(self)
        content["problems"] = {what: len(found) for what, found in self.problems}
        _make_folder(path)
        with replaced_file(path) as file:
            json.dump(content, file, indent=2)


def check_place(path: str | os.PathLike) -> None:
    """Raise an `OSError` if no report can be saved, before all the work."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    with tempfile.TemporaryFile(dir=_make_folder(path)):
        pass


def _make_folder(path):
    """Return the folder of a file, and make it if necessary."""
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    return folder


def _class_lines(report, split):
    counts = np.array(split.class_counts)
    if not counts.sum():
        return []
    low, median, high = counts.min(), np.median(counts), counts.max()
    smallest = np.argsort(counts, kind="stable")[:_SMALLEST_CLASSES]
    names = ", ".join(f"{report.class_names[label]} {counts[label]:,}" for label in smallest)
    return [f"  images a class: {low:,} to {high:,}, median {median:g}", f"  fewest: {names}"]


def _class_table(report):
    width = max(len(name) for name in [*report.class_names, "class"])
    names = list(report.splits)
    lines = [f"{'class':{width}}" + "".join(f"{name:>9}" for name in names)]
    for label, class_name in enumerate(report.class_names):
        counts = [report.splits[name].class_counts[label] for name in names]
        lines.append(f"{class_name:{width}}" + "".join(f"{count:>9,}" for count in counts))
    return lines
