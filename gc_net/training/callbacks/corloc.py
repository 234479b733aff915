"""CorLoc after each epoch, for orientation only."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from gc_net.data.pipeline import evaluation_batches
from gc_net.localizer import placer
from gc_net.metrics import best_iou

if TYPE_CHECKING:
    import tensorflow as tf

    from gc_net.stages.stage_run import StageRun

CORLOC = "test_corloc (not used for any choice)"


class CorLoc(keras.callbacks.Callback):
    """Add CorLoc on evenly spaced images with boxes to the logs of each epoch.

    It is for orientation only: nothing is chosen by it. It must come before the callbacks that show
    or write the logs.

    Args:
        batches: Batches of `pipeline.evaluation_batches` with boxes.
        place: Function of a batch of images to a `Placement`, see `gc_net.localizer.placer`.
    """

    adds_to_logs = True

    def __init__(self, batches: "tf.data.Dataset", place: Callable[[Any], Any]):
        super().__init__()
        self.batches = batches
        self.place = place

    @classmethod
    def of(cls, run: "StageRun", model: keras.Model) -> list["CorLoc"]:
        """Return a list with the callback that a run's --log_corloc asks for, or an empty list."""
        count = run.options.log_corloc
        truth = run.dataset.truth("test") if count else None
        if truth is None:
            if count:
                print("There are no test boxes, so --log_corloc logs nothing.", file=sys.stderr)
            return []
        split = run.dataset.split("test")
        batches = evaluation_batches(
            split,
            truth,
            image_size=run.data.image_size,
            resize_size=run.data.resize_size,
            batch_size=32,
            indices=np.linspace(0, len(split) - 1, min(count, len(split))).astype(int),
            cache=run.cache_dir,
        )
        return [cls(batches, placer(model.detector))]

    def on_epoch_end(self, epoch, logs=None):
        found = [
            best_iou(self.place(b["image"]).boxes, b["boxes_rel_xyxy"], b["num_boxes"])
            for b in self.batches
        ]
        iou = np.concatenate(found)
        logs[CORLOC] = float(np.mean(iou[~np.isnan(iou)] > 0.5))
