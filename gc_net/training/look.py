"""The stage after the third: the classifier learns the second look from the detector's shapes.

A classifier that has only ever seen whole images is asked, at the second look, to name close-ups.
So it goes on learning, from every training image as a whole and from its close-up: the region
around the shape that the detector places in it, in the pixels of the original. No box is read.
"""

import dataclasses
import os

import numpy as np

from gc_net.atomic_files import replaced_file
from gc_net.datasets.crops import crop, crop_reduced, regions
from gc_net.datasets.loading import read_reduced
from gc_net.datasets.pipeline import evaluation_batches, num_steps
from gc_net.progress import track
from gc_net.training.data import TrainingData

BOXES_FILE = "boxes.npz"
_BATCH_SIZE = 32


def find_boxes(model, data, path, write=True):
    """Return the upright boxes [N, 4] of the shapes in the training images, relative to them.

    Rows of unreadable images are NaN.

    Args:
        model: The `GCNet`.
        data: The `TrainingData`.
        path: File to take the result from, where it exists, and else to write it to.
        write: Whether to write it.
    """
    if os.path.exists(path):
        with np.load(path, allow_pickle=False) as file:
            return file["boxes_rel_xyxy"]
    locate = model.locator()
    boxes_rel_xyxy = np.full((len(data.split), 4), np.nan, np.float32)
    batches = evaluation_batches(
        data.split,
        image_size=data.image_size,
        batch_size=_BATCH_SIZE,
        frame="full",
        unreadable=data.unreadable,
    )
    total = num_steps(len(data.split), _BATCH_SIZE, drop_remainder=False)
    for batch in track(batches, total, "Placing shapes"):
        boxes_rel_xyxy[batch["index"].numpy()] = locate(batch["image"]).numpy()
    if write:
        with replaced_file(path, "wb") as file:
            np.savez(file, boxes_rel_xyxy=boxes_rel_xyxy)
    return boxes_rel_xyxy


def close_up_data(data, boxes_rel_xyxy, config):
    """Return the training images as they are, followed by a close-up of each.

    A random window of a close-up shows as much as the second look of a trained model does: what is
    cut out is larger by what the window leaves out.

    Args:
        data: The `TrainingData`.
        boxes_rel_xyxy: [N, 4], see `find_boxes`.
        config: A `TrainConfig`.

    Returns:
        data: `TrainingData` of 2N images.
        indices: [M] those of them that can be read.
    """
    side = config.look.side * data.resize_size / data.image_size
    split = dataclasses.replace(
        data.split,
        labels=np.tile(data.split.labels, 2),
        files=np.tile(data.split.files, 2),
        read=_WholeAndClose(data.split.read, regions(boxes_rel_xyxy, side)),
    )
    # Not cached: what a close-up shows depends on the detector.
    both = TrainingData(split, config.data, data.seed)
    both.unreadable = data.unreadable
    readable = np.isfinite(boxes_rel_xyxy[:, 0])
    return both, np.flatnonzero(np.tile(readable, 2))


class _WholeAndClose:
    """Reads image i of N as it is, and image N + i as the close-up of image i.

    Args:
        read: The `read` of a split of N images.
        regions_rel_xyxy: [N, 4] what the close-ups show.
    """

    def __init__(self, read, regions_rel_xyxy):
        self._plain = read
        self._regions = regions_rel_xyxy

    def __call__(self, index):
        count = len(self._regions)
        image = self._plain(index % count)
        return image if index < count else crop(image, self._regions[index - count])

    def reduced(self, index, target):
        count = len(self._regions)
        if index < count:
            return read_reduced(self._plain, index, target)
        image = crop_reduced(self._plain, index - count, self._regions[index - count], target)
        return image, image.shape[:2]
