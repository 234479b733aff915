"""What is shown while a stage trains: progress, logs, warnings, pictures."""

import os

import numpy as np

from gc_net.data.pipeline import evaluation_batches
from gc_net.localizer import placer
from gc_net.metrics import best_iou
from gc_net.training.callbacks import CsvLog, HealthCheck, ImageSummaries, ProgressBar, Scalars
from gc_net.training.callbacks.progress_bar import SHOWN
from gc_net.training.devices import is_chief

CORLOC = "test_corloc (not used for any choice)"
NUM_PICTURES = 8


def stage_callbacks(
    folder, tensorboard=True, pictures=None, health=False, watch_spread=True, fresh=True
):
    """Return the callbacks of one stage; on all workers but the chief, those without output.

    Args:
        folder: The stage's folder; `log.csv` and `tensorboard/` go there.
        tensorboard: Whether to write event files.
        pictures: [N, S, S, 3] images that a `GCNet`'s masks are drawn for.
        health: Whether to watch for a detector's failure modes.
        watch_spread: Whether shapes that are all the same are one of them, see `HealthCheck`.
        fresh: Whether the detector starts without a warm-up, see `HealthCheck`.
    """
    callbacks = []
    if is_chief():
        callbacks.append(ProgressBar({**SHOWN, CORLOC: "CorLoc, for orientation only,"}))
        callbacks.append(CsvLog(os.path.join(folder, "log.csv")))
        if tensorboard:
            events = os.path.join(folder, "tensorboard")
            callbacks.append(
                Scalars(events) if pictures is None else ImageSummaries(events, pictures)
            )
    if health:
        report = print if is_chief() else lambda message: None
        callbacks.append(HealthCheck(report=report, watch_spread=watch_spread, fresh=fresh))
    return callbacks


def some_pictures(data):
    """Return a few training images [N, S, S, 3] as the networks see them, without augmentation."""
    count = min(NUM_PICTURES, len(data.split))
    indices = np.linspace(0, len(data.split) - 1, count).astype(int)
    batches = evaluation_batches(
        data.split,
        image_size=data.image_size,
        resize_size=data.resize_size,
        batch_size=count,
        indices=indices,
        cache=data.cache,
        unreadable=data.unreadable,
    )
    return np.concatenate([batch["image"].numpy() for batch in batches])


class CorLocLog:
    """CorLoc on evenly spaced images of a split with boxes; a number to look at, and no more.

    Called without arguments it returns what to add to an epoch's logs.

    Args:
        model: The `GCNet` in training.
        split, truth: The images, and their boxes.
        data: The `TrainingData`, for the sizes.
        num_images: How many images to use.
        cache_dir: Folder for decoded images, or None.
    """

    def __init__(self, model, split, truth, data, num_images, cache_dir=None):
        count = min(num_images, len(split))
        self.batches = evaluation_batches(
            split,
            truth,
            image_size=data.image_size,
            resize_size=data.resize_size,
            batch_size=32,
            indices=np.linspace(0, len(split) - 1, count).astype(int),
            cache=cache_dir,
        )
        self._place = placer(model.detector)

    def __call__(self):
        found = [
            best_iou(self._place(b["image"]).boxes, b["boxes_rel_xyxy"], b["num_boxes"])
            for b in self.batches
        ]
        iou = np.concatenate(found)
        return {CORLOC: float(np.mean(iou[~np.isnan(iou)] > 0.5))}
