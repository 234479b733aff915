"""An estimate, without boxes, of how good shapes are: whether they follow the images.

An object does not move when the image around it is cropped elsewhere or mirrored. So the shapes
that a detector places in ten windows of one image should be the same. A detector that does not
look, and
places the same shape everywhere, cannot agree with itself: its shape moves with the window.
"""

import itertools
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from gc_net import engines
from gc_net.data import transforms
from gc_net.data.splits import Split
from gc_net.detector import Detector
from gc_net.engines.base import Engine
from gc_net.evaluation.batches import readable_batches
from gc_net.evaluation.checks import spread
from gc_net.localizer import Localizer, placer
from gc_net.metrics import box_iou

# Position between a detector that does not look (0) and a perfect one (1): up to here shapes
# "hardly" follow the images, and up to here "in part". The demonstration, with a CorLoc of 88 %,
# has 0.52; the run of 280 photos, with 94 %, has 0.75. A run with boxes no better than a centred
# rectangle had about 0.1.
HARDLY, IN_PART = 0.25, 0.45
_LIMIT = 128


def agreement(
    detector: Detector,
    split: Split,
    resize_size: int,
    limit: int = 500,
    batch_size: int = 8,
    engine: str | Engine = engines.AUTO,
) -> dict[str, float]:
    """Measure whether a detector places the same shape in ten windows of one image.

    Args:
        detector: A `Detector`.
        split: A `Split`; no labels are used.
        resize_size: Side that images are squashed to before windows are taken.
        limit: Most images to look at, spread evenly.
        engine: Name of what runs the detector, or an `Engine`, see `gc_net.engines`.

    Returns:
        Dict of `agreement`, the mean IoU of the boxes of any two windows; `constant`, its value if
        every window got the mean box; `shuffled`, its value between one image and the next, NaN for
        a single image; and `num_images`.
    """
    image_size = detector.image_size
    windows = transforms.ten_windows(resize_size, image_size)
    indices = spread(len(split), limit)
    engine = engines.ready(engine, lambda _: [detector], len(windows) * len(indices))
    place = placer(detector, engine=engine)
    placed = []
    for batch in readable_batches(
        split,
        image_size=image_size,
        resize_size=resize_size,
        batch_size=batch_size,
        ten_crop=True,
        indices=indices,
        label="Placing shapes in windows",
    ):
        images = tf.reshape(batch["image"], (-1, image_size, image_size, 3))  # [10·B, S, S, 3]
        placed.append(np.reshape(place(images).boxes, (-1, len(windows), 4)))
    boxes = np.concatenate(placed)  # [N, 10, 4] relative to the windows
    constant = np.broadcast_to(boxes.mean(axis=(0, 1)), (1, *boxes.shape[1:]))
    sizes = windows, resize_size, image_size
    boxes, constant = _in_image(boxes, *sizes), _in_image(constant, *sizes)
    others = np.roll(boxes, 1, axis=0)
    return {
        "agreement": _mean_pair_iou(boxes, boxes),
        "constant": _mean_pair_iou(constant, constant),
        "shuffled": _mean_pair_iou(boxes, others) if len(boxes) > 1 else float("nan"),
        "num_images": len(boxes),
    }


def believed(
    localizer: Localizer, split: Split, model_dir: str = "", engine: str | Engine = engines.AUTO
) -> dict[str, Any]:
    """Return the estimate of how good a localizer's shapes are, for `metrics.json`.

    Args:
        localizer: A `Localizer`.
        split: A `Split`; no labels are used.
        model_dir: Folder of the model, to find the files of its run's warm-up.
        engine: As for `agreement`.

    Returns:
        Dict of what `agreement` returns, rounded; `committee`, how far the members of the teacher
        agreed on the training images, if it was a committee; and `verdict`, in plain words.
    """
    # Equal windows would not reveal a detector that does not look.
    least = transforms.default_resize_size(localizer.image_size)
    resize_size = max(localizer.resize_size, least)
    found = agreement(localizer.detector, split, resize_size, _LIMIT, engine=engine)
    found = {name: round(value, 4) for name, value in found.items() if np.isfinite(value)}
    committee = _committee(model_dir, localizer.record.settings)
    if committee is not None:
        found["committee"] = round(committee, 4)
    return {**found, "verdict": verdict(found)}


def way_gone(found: Mapping[str, float]) -> float:
    """Return how far a detector is from one that does not look (0) to a perfect one (1)."""
    blind = _blind(found)
    return (found["agreement"] - blind) / max(1 - blind, 1e-6)


def _blind(found):
    # A detector that does not look places the same shapes in one image as in others. A constant one
    # would agree as much with itself. Slender shapes that follow objects may agree little more.
    return found.get("shuffled", found["constant"])


def verdict(found: Mapping[str, float]) -> str:
    """Return what the numbers of `believed` mean, and what to do next."""
    gone = way_gone(found)
    if gone < HARDLY:
        word = "hardly follow the images"
        advice = (
            "Train longer (twice the steps of warm-up and detector), or with another teacher "
            "(--warmup_teacher); docs/training.md says what else to try."
        )
    elif gone < IN_PART:
        word = "follow the images in part"
        advice = "Look at the doubtful ones in report.html; longer training may help."
    else:
        word = "follow the images"
        advice = "Look at the doubtful ones in report.html before the labels are used."
    text = (
        f"The shapes {word}: those in shifted and mirrored windows of one image overlap by "
        f"{found['agreement']:.2f}, and those of different images by {_blind(found):.2f}."
    )
    if "committee" in found:
        text += f" The members of the teacher's committee agreed to {found['committee']:.2f}."
    return f"{text} {advice}"


def _committee(model_dir, settings):
    """Return the mean agreement of the committee that taught, or None if there was none."""
    from gc_net import teachers
    from gc_net.stages.run_folder import read_array
    from gc_net.stages.warmup import TARGETS_FILE, round_name
    from gc_net.teachers.committee import Committee

    run_dir = os.path.dirname(os.path.abspath(model_dir))
    # In later rounds the detector has joined the members.
    paths = [os.path.join(run_dir, stage, TARGETS_FILE) for stage in (round_name(1), "warmup")]
    path = next(filter(os.path.exists, paths), None)
    name = settings.get("warmup", {}).get("teacher")
    if not model_dir or not name or path is None:
        return None
    try:
        if not isinstance(teachers.get(name), Committee):
            return None
    except (TypeError, ValueError):
        return None  # a teacher of an earlier version, or one that was registered at run time
    weights = read_array(path, "weights", optional=True)
    return None if weights is None else float(np.mean(weights))


def _in_image(boxes, windows, resize_size, image_size):
    """Map boxes [N, W, 4] from their windows to the whole image, relative, and clip them to it."""
    boxes = np.asarray(boxes, np.float64)
    mapped = [
        transforms.boxes_out_of_window(boxes[:, number], window, resize_size, image_size)
        for number, window in enumerate(windows)
    ]
    return np.clip(np.stack(mapped, axis=1), 0, 1)


def _mean_pair_iou(boxes, others):
    pairs = itertools.combinations(range(boxes.shape[1]), 2)
    return float(np.mean([box_iou(boxes[:, a], others[:, b]) for a, b in pairs]))
