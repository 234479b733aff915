"""Predicting on many files: from a model and images on disk to label files."""

import dataclasses
import hashlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gc_net import engines, progress
from gc_net.atomic_files import replaced_file
from gc_net.data.loading import Unreadable
from gc_net.data.names import printable, some_lines
from gc_net.prediction import formats
from gc_net.prediction.find_images import find_images
from gc_net.prediction.known_classes import folder_labels
from gc_net.prediction.log import PredictionLog

if TYPE_CHECKING:
    from gc_net.engines.base import Engine
    from gc_net.localizer import Localizer

UNREADABLE_FILE = "unreadable.txt"
REVIEW_FILE = "review.csv"


@dataclasses.dataclass(frozen=True)
class Summary:
    """The results of a run.

    Attributes:
        num_images: Images of the run.
        num_new: Images predicted by this run; an earlier run predicted the others.
        num_labelled: Images in the label files.
        num_review: Images on the review list instead.
        unreadable: (file, reason) of images that could not be read.
        path: Path of the label files.
        previews: Folder of the previews; None if none were drawn.
    """

    num_images: int
    num_new: int
    num_labelled: int
    num_review: int
    unreadable: tuple[tuple[str, str], ...]
    path: str
    previews: str | None = None

    def text(self, limit: int = 10) -> str:
        """Return a few lines of text."""
        lines = [
            f"{self.num_images:,} images, {self.num_new:,} of them predicted by this run.",
            f"{self.num_labelled:,} are in {self.path}.",
        ]
        if self.previews is not None:
            lines.append(f"Previews are in {self.previews}.")
        if self.num_review:
            lines.append(f"{self.num_review:,} below the least confidence are in {REVIEW_FILE}.")
        if self.unreadable:
            lines.append(f"{len(self.unreadable):,} cannot be read ({UNREADABLE_FILE}):")
            names = (f"{printable(file)}: {reason}" for file, reason in self.unreadable)
            lines += some_lines(names, limit)
        return "\n".join(lines)


def predict_files(
    model_dir: str | os.PathLike,
    images: str,
    output_dir: str,
    label_format: str = "coco",
    *,
    batch_size: int = 32,
    confidence: bool = True,
    evidence: bool = False,
    min_confidence: float | None = None,
    labels: str | None = None,
    max_objects: int = 1,
    previews: int = 0,
    previews_of: str = "classes",
    format_options: Mapping[str, Any] | None = None,
    second_look: float | None = None,
    engine: "str | Engine" = engines.AUTO,
    localizer: "Localizer | None" = None,
) -> Summary:
    """Predict on all images and write label files.

    Every prediction is written at once to `predictions.jsonl` in the output folder. An interrupted
    run resumes from that file, and so does a run with more images, another format or another
    `min_confidence`. Images that could not be read are tried again, and files whose size has
    changed are predicted again. A second process that writes to the same folder is refused.

    Args:
        model_dir: Folder of a model, see `gc_net.load`.
        images: See `find_images`; the content of the output folder is left out.
        output_dir: Folder to write to: a new one, or that of an earlier run with the same model.
        label_format: Name of one of `gc_net.prediction.formats.FORMATS`.
        batch_size: Images that go through the model at once.
        confidence, evidence: Whether to judge each localization, see `Localizer.predict`.
        min_confidence: Images below it go to `review.csv`, the most doubtful first, and not into
            the label files.
        labels: `"folders"` if the class of each image is known as the name of its folder. None to
            take the classifier's class.
        max_objects: Most objects to look for in an image, see `gc_net.prediction.more_objects`.
        previews: How many of the labelled images to draw; None for all.
        previews_of: Which ones: `"classes"` takes the classes in turn, `"doubtful"` those of the
            lowest confidence.
        format_options: Arguments of the format.
        second_look: See `gc_net.load`; the model's own if None.
        engine: Name of what runs the networks, or an `Engine`, see `gc_net.engines`. A folder may
            be resumed with another engine if both give the same shapes.
        localizer: The model of `model_dir`, if it is already loaded.

    Returns:
        A `Summary`.
    """
    if not confidence and min_confidence is not None:
        raise ValueError(
            "A least confidence needs confidences: ask for confidences, or leave it out."
        )
    if min_confidence is not None and not 0 <= min_confidence <= 1:  # nor NaN
        raise ValueError(
            f"`min_confidence` must be from 0 to 1. Received: min_confidence={min_confidence}"
        )
    if not confidence and previews and previews_of == "doubtful":
        raise ValueError("Doubtful images are found by their confidences: ask for confidences.")
    label_format = formats.get(label_format, **(format_options or {}))
    unreadable = Unreadable()
    root, files = find_images(images, output_dir, unreadable)
    num_images = len(files) + len(unreadable)
    label_format.check(files)

    from gc_net.data.crops import check_second_look
    from gc_net.datasets.image_files import file_split
    from gc_net.localizer import load
    from gc_net.saving import model_folder

    fingerprint = _fingerprint(model_folder(model_dir))
    # The name of the second look in folders of earlier versions, which can be resumed.
    header = {"model": fingerprint, "images": root, "look": second_look}
    if second_look is not None:
        check_second_look(second_look)  # before the folder records it
    # Not only whether there are confidences, because those of earlier versions differ.
    header["confidence"] = confidence and "expected IoU"
    header["evidence"] = evidence or None  # folders of earlier versions do not know of these
    header["labels"] = labels
    header["rounded"] = None if isinstance(engine, str) or engine.exact else engine.name
    header["max_objects"] = max_objects if max_objects > 1 else None
    class_of = dict.fromkeys(files, 0)
    if labels == "folders":  # before the folder records it
        localizer = localizer or load(model_dir, second_look)
        class_of = folder_labels(root, files, localizer.class_names)
    with PredictionLog(output_dir, header) as log:
        sizes = _to_predict(root, files, log.files())
        missing = list(sizes)
        localizer = localizer or load(model_dir, second_look)
        num_new = 0
        if missing:
            classes = [class_of[file] for file in missing]
            split = file_split("images", localizer.class_names, classes, missing, root)
            found = localizer.predict_split(
                split,
                batch_size,
                confidence=confidence,
                evidence=evidence,
                known_classes=labels is not None,
                max_objects=max_objects,
                unreadable=unreadable,
                engine=engine,
            )
            for index, prediction in progress.track(found, len(missing), "Predicting"):
                log.append(missing[index], prediction, sizes[missing[index]])
                num_new += 1
        # A file that is now unreadable has no prediction, even if the log has an old one.
        readable = set(files).difference(file for file, _ in unreadable)
        results = _Chosen(log, readable, min_confidence)
        path = label_format.write(output_dir, results, localizer.class_names, root)
        num_review = _write_review(output_dir, results.doubtful(), localizer.class_names)
        _write_unreadable(output_dir, unreadable)
        drawn = None
        if previews != 0:
            from gc_net.prediction.previews import write_previews

            drawn = write_previews(output_dir, root, results, previews, previews_of)
    num_labelled = num_images - len(unreadable) - num_review
    return Summary(num_images, num_new, num_labelled, num_review, tuple(unreadable), path, drawn)


def _to_predict(root, files, done):
    """Return {file: bytes} of files that are new or have changed; bytes are None if unknown.

    Args:
        root: Folder that `files` are relative to.
        done: The log's bytes of each predicted file, see `PredictionLog.files`.
    """
    sizes = {}
    for file in files:
        num_bytes = _num_bytes(os.path.join(root, file))
        changed = num_bytes != done.get(file) and None not in (num_bytes, done.get(file))
        if file not in done or changed:
            sizes[file] = num_bytes
    return sizes


def _num_bytes(path):
    try:
        return os.path.getsize(path)
    except OSError:
        return None  # reading it gives the reason


class _Chosen:
    """The results of a log for certain files, above the least confidence; can be iterated again."""

    def __init__(self, log, files, min_confidence):
        self.log, self.files, self.min_confidence = log, files, min_confidence

    def __iter__(self):
        return (result for result in self._asked_for() if not self._is_doubtful(result[1]))

    def doubtful(self):
        """Return the others, the most doubtful first."""
        if self.min_confidence is None:
            return []  # without reading all of the log
        found = (result for result in self._asked_for() if self._is_doubtful(result[1]))
        return sorted(found, key=lambda result: result[1].confidence)

    def _asked_for(self):
        return (result for result in self.log if result[0] in self.files)

    def _is_doubtful(self, prediction):
        return self.min_confidence is not None and prediction.confidence < self.min_confidence


def _write_review(folder, doubtful, class_names):
    formats.get("csv", file_name=REVIEW_FILE).write(folder, doubtful, class_names)
    if not doubtful:
        os.unlink(os.path.join(folder, REVIEW_FILE))
    return len(doubtful)


def _write_unreadable(folder, unreadable):
    path = os.path.join(folder, UNREADABLE_FILE)
    if len(unreadable):
        with replaced_file(path) as file:
            file.writelines(
                f"{printable(name)}\t{printable(reason)}\n" for name, reason in unreadable
            )
    elif os.path.exists(path):
        os.unlink(path)


def _fingerprint(folder):
    """Return a hash of the model's files: a log must not mix predictions of two models."""
    from gc_net.saving import MODEL_FILE, WEIGHTS_FILE

    digest = hashlib.sha256()
    for name in (MODEL_FILE, WEIGHTS_FILE):
        try:
            with open(os.path.join(folder, name), "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except FileNotFoundError:
            raise ValueError(f"No model in {folder!r}: it has no {name}.") from None
    return digest.hexdigest()[:16]
