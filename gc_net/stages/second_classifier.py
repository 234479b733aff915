"""The stage after the third: a namer learns to name close-ups of the detector's shapes.

The classifier sees whole images, in which an object may be small, and has to name parts of them as
well, to supervise the detector. Once the detector has placed its shapes, a second classifier need
do neither: it is trained on close-ups alone, the regions that the second look will show it, cut out
of the original images, and at a size of its own. No box is read.
"""

import dataclasses
import functools

import keras
import numpy as np

from gc_net.data.crops import read_region, regions
from gc_net.data.pipeline import evaluation_batches, num_steps
from gc_net.progress import track
from gc_net.stages.classifier import compiled, fast_optimizer, untrained
from gc_net.stages.run_folder import read_array, write_array
from gc_net.training.data import TrainingData

BOXES_FILE = "boxes.npz"
_BATCH_SIZE = 32


def find_boxes(localizer, data, path, write=True):
    """Return the upright boxes [N, 4] of the shapes in the training images, relative to them.

    Rows of unreadable images are NaN.

    Args:
        localizer: The `Localizer`.
        data: The `TrainingData`.
        path: File to take the result from, where it exists, and else to write it to.
        write: Whether to write it.
    """
    found = read_array(path, "boxes_rel_xyxy")
    if found is not None:
        return found
    place = localizer.placer(data.resize_size)
    boxes_rel_xyxy = np.full((len(data.split), 4), np.nan, np.float32)
    batches = evaluation_batches(
        data.split,
        image_size=data.resize_size,
        batch_size=_BATCH_SIZE,
        frame="full",
        unreadable=data.unreadable,
    )
    total = num_steps(len(data.split), _BATCH_SIZE, drop_remainder=False)
    for batch in track(batches, total, "Placing shapes"):
        boxes_rel_xyxy[batch["index"].numpy()] = place(batch["image"]).boxes.numpy()
    if write:
        write_array(path, boxes_rel_xyxy=boxes_rel_xyxy)
    return boxes_rel_xyxy


def close_up_data(data, boxes_rel_xyxy, config):
    """Return close-ups of the training images as `TrainingData`.

    A random window of one shows as much as the second look does: what is cut out is larger by what
    the window leaves out.

    Args:
        data: The `TrainingData` of the whole images.
        boxes_rel_xyxy: [N, 4], see `find_boxes`.
        config: A `TrainConfig`.
    """
    settings = dataclasses.replace(config.data, image_size=config.namer.image_size, resize_size=0)
    # Not cached: what a close-up shows depends on the detector.
    close = TrainingData(data.split, settings, data.seed)
    squares = regions(boxes_rel_xyxy, config.detector.look * close.resize_size / close.image_size)
    read = functools.partial(_read, data.split.read, squares, close.resize_size)
    close.split = dataclasses.replace(data.split, read=read)
    close.unreadable = data.unreadable
    return close


def build_namer(config, num_classes):
    """Return a new `Classifier` with the weights that its training starts from.

    Args:
        config: A `TrainConfig`.
    """
    return untrained(config, num_classes, config.namer.image_size, name="second_classifier")


def trained_namer(namer, config, num_steps):
    """Return a compiled model whose training trains `namer`.

    Args:
        config: A `TrainConfig`.
        num_steps: Steps of the whole training, which the schedule is stretched to.
    """
    settings = config.namer
    return compiled(
        namer,
        fast_optimizer(settings, num_steps),
        augmentation=augmentation(settings.augmentation, config.seed),
        smoothing=settings.smoothing,
    )


def augmentation(strength, seed):
    """Return a layer that zooms and lights images in 0–255 at random.

    Random windows have shifted them already.

    Args:
        strength: 1 for zooms to a window of 0.7 to 1.1 of each side, brightness of up to a tenth,
            and a fifth more or less of contrast; in proportion.
        seed: Seed; the states of the generators are variables of the layer.
    """
    if not strength:
        return None
    layers = keras.layers
    # Each side has its own zoom, so that proportions change as well.
    zoom = (-0.3 * strength, 0.1 * strength)
    contrast = min(0.2 * strength, 0.99)  # both ways; a single number would only raise it
    # In float32 whatever the policy: half precision has too few grey levels.
    return keras.Sequential(
        [
            layers.RandomZoom(zoom, zoom, seed=seed, dtype="float32"),
            # Seeds of their own, or a brighter image would always have more contrast.
            layers.RandomBrightness(0.1 * strength, seed=seed + 1, dtype="float32"),
            layers.RandomContrast((contrast, contrast), seed=seed + 2, dtype="float32"),
        ],
        name="augmentation",
    )


def _read(read, squares, target, index):
    return read_region(read, index, squares[index], target)
