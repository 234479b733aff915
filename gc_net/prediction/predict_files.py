"""Predicting on many files: from a model and images on disk to label files."""

import dataclasses
import hashlib
import os

from gc_net import progress
from gc_net.atomic_files import replaced_file
from gc_net.data.loading import Unreadable
from gc_net.data.names import printable
from gc_net.prediction import formats
from gc_net.prediction.find_images import find_images
from gc_net.prediction.log import PredictionLog

UNREADABLE_FILE = "unreadable.txt"
REVIEW_FILE = "review.csv"


@dataclasses.dataclass(frozen=True)
class Summary:
    """What a run came to.

    Attributes:
        num_images: Images that were asked for.
        num_new: Images predicted by this run; others had been by an earlier one.
        num_labelled: Images in the label files.
        num_review: Images on the review list instead.
        unreadable: (file, reason) of images that could not be read.
        path: What was written.
    """

    num_images: int
    num_new: int
    num_labelled: int
    num_review: int
    unreadable: tuple[tuple[str, str], ...]
    path: str

    def text(self, limit=10):
        """Return a few lines for a reader."""
        lines = [
            f"{self.num_images:,} images, {self.num_new:,} of them predicted by this run.",
            f"{self.num_labelled:,} are in {self.path}.",
        ]
        if self.num_review:
            lines.append(f"{self.num_review:,} below the least confidence are in {REVIEW_FILE}.")
        if self.unreadable:
            lines.append(f"{len(self.unreadable):,} cannot be read ({UNREADABLE_FILE}):")
            lines += [f"  {printable(file)}: {reason}" for file, reason in self.unreadable[:limit]]
            if len(self.unreadable) > limit:
                lines.append(f"  and {len(self.unreadable) - limit:,} more")
        return "\n".join(lines)


def predict_files(
    model_dir,
    images,
    output_dir,
    label_format="coco",
    *,
    batch_size=32,
    confidence=True,
    min_confidence=None,
    previews=0,
    format_options=None,
    second_look=None,
    localizer=None,
):
    """Predict on all images and write label files.

    Every prediction is kept in `predictions.jsonl` in the output folder at once. A run that was
    interrupted goes on from there, as does one with more images, another format or another
    `min_confidence`; images that could not be read are tried again, and files whose size has
    changed are predicted again. A second process that would write to the same folder meanwhile is
    refused.

    Args:
        model_dir: Folder of a model, see `gc_net.load`.
        images: See `find_images`; what lies in the output folder is left out.
        output_dir: Folder to write to: a new one, or that of an earlier run with the same model.
        label_format: Name of one of `gc_net.prediction.formats.FORMATS`.
        batch_size: Images that go through the model at once.
        confidence: Whether to judge each localization.
        min_confidence: Images below it go to `review.csv` and not into the label files.
        previews: How many of the labelled images to draw; None for all.
        format_options: Arguments of the format.
        second_look: See `gc_net.load`; as the model says if None.
        localizer: The model of `model_dir`, where it is loaded already.

    Returns:
        A `Summary`.
    """
    if min_confidence is not None and not confidence:
        raise ValueError("A least confidence needs confidences: ask for them, or leave it out.")
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
    # Folders of earlier versions call the second look so, and can be resumed.
    header = {"model": fingerprint, "images": root, "look": second_look}
    if second_look is not None:
        check_second_look(second_look)  # before the folder records it
    with PredictionLog(output_dir, {**header, "confidence": confidence}) as log:
        sizes = _to_predict(root, files, log.files())
        missing = list(sizes)
        localizer = localizer or load(model_dir, second_look)
        num_new = 0
        if missing:
            split = file_split("images", localizer.class_names, [0] * len(missing), missing, root)
            found = localizer.predict_split(
                split, batch_size, confidence=confidence, unreadable=unreadable
            )
            for index, prediction in progress.track(found, len(missing), "Predicting"):
                log.append(missing[index], prediction, sizes[missing[index]])
                num_new += 1
        # One that cannot be read any more has no prediction, though the log may have an old one.
        readable = set(files).difference(file for file, _ in unreadable)
        results = _Chosen(log, readable, min_confidence)
        path = label_format.write(output_dir, results, localizer.class_names, root)
        num_review = _write_review(output_dir, results.doubtful(), localizer.class_names)
        _write_unreadable(output_dir, unreadable)
        if previews != 0:
            from gc_net.prediction.previews import write_previews

            write_previews(output_dir, root, results, previews)
    num_labelled = num_images - len(unreadable) - num_review
    return Summary(num_images, num_new, num_labelled, num_review, tuple(unreadable), path)


def _to_predict(root, files, done):
    """Return {file: bytes} of those not predicted yet, or changed since; bytes None if unknown.

    Args:
        root: Folder that `files` are relative to.
        done: What the log says of each file that was predicted, see `PredictionLog.files`.
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
        return None  # reading it will say why


class _Chosen:
    """The results of a log that were asked for and are sure enough; can be gone through again."""

    def __init__(self, log, files, min_confidence):
        self.log, self.files, self.min_confidence = log, files, min_confidence

    def __iter__(self):
        return (result for result in self._asked_for() if not self._is_doubtful(result[1]))

    def doubtful(self):
        return (result for result in self._asked_for() if self._is_doubtful(result[1]))

    def _asked_for(self):
        return (result for result in self.log if result[0] in self.files)

    def _is_doubtful(self, prediction):
        return self.min_confidence is not None and prediction.confidence < self.min_confidence


def _write_review(folder, doubtful, class_names):
    counted = _Counted(doubtful)
    formats.get("csv", file_name=REVIEW_FILE).write(folder, counted, class_names)
    if not counted.count:
        os.unlink(os.path.join(folder, REVIEW_FILE))
    return counted.count


class _Counted:
    """An iterable that knows how many items it gave."""

    def __init__(self, items):
        self.items, self.count = items, 0

    def __iter__(self):
        for item in self.items:
            self.count += 1
            yield item


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
