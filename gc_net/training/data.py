"""The training images of a run: a split of images and labels, and batches of it, without boxes."""

import contextlib
import copy
import os
from typing import Any

import numpy as np
import tensorflow as tf

from gc_net.data.cache import ImageCache
from gc_net.data.loading import Unreadable
from gc_net.data.pipeline import explained, num_steps, training_batches
from gc_net.data.splits import DataError, Split
from gc_net.data.transforms import default_resize_size, random_windows
from gc_net.settings import Settings
from gc_net.training.devices import check_batch_size

# Larger caches of decoded images are made only on request.
AUTO_CACHE_BYTES = 4e9


class TrainingData:
    """The training images of a run.

    Args:
        split: The `Split` to train on.
        config: A `DataConfig`.
        seed: Seed of the order and of the augmentation.
        cache_dir: Folder for decoded images, or None to decode every time.
    """

    def __init__(self, split: Split, config: Settings, seed: int, cache_dir: str | None = None):
        self.split = split
        self.image_size = config.image_size
        self.resize_size = config.resize_size or default_resize_size(config.image_size)
        self.seed = seed
        self.unreadable = Unreadable(announce=True)
        self.cache = ImageCache(cache_dir, split, self.resize_size) if cache_dir else None

    def num_steps(self, stage: str, batch_size: int, num_images: int | None = None) -> int:
        """Return the steps of an epoch of `stage` over all images, or over `num_images` of them.

        Raises if there would be none, or if devices cannot share a batch.
        """
        check_batch_size(stage, batch_size)
        num_images = len(self.split) if num_images is None else num_images
        steps = num_steps(num_images, batch_size)
        if steps == 0:
            raise DataError(
                f"The {stage} has {num_images} of {len(self.split)} training images, fewer than "
                f"one batch of {batch_size}. Lower --{stage}_batch_size, or use fewer "
                "--classifier_num_folds, if there are any."
            )
        return steps

    def part(self, indices: np.ndarray) -> "TrainingData":
        """Return some of the images, in the given order; they are decoded every time."""
        part = copy.copy(self)
        part.split, part.cache = self.split.part(indices), None
        return part

    def readable(self) -> contextlib.AbstractContextManager:
        """Return a context that raises a plain error if not a single image can be read."""
        count = len(self.split)
        message = f"None of the {count} training images in {self.split.root} can be read.\n"
        return explained(self.unreadable, count, message)

    def windows(self, epoch: int, crop_scale: float = 0.0, crop_aspect: float = 1.0) -> np.ndarray:
        """Return the windows [N, 5] of the images in an epoch, see `transforms.random_windows`."""
        return random_windows(
            len(self.split),
            self.resize_size,
            self.image_size,
            seed=self.seed,
            epoch=epoch,
            crop_scale=crop_scale,
            crop_aspect=crop_aspect,
        )

    def batches(
        self, batch_size: int, indices: np.ndarray | None = None, **position: Any
    ) -> tf.data.Dataset:
        """Return the batches of (the rest of) an epoch, see `pipeline.training_batches`."""
        return training_batches(
            self.split,
            image_size=self.image_size,
            batch_size=batch_size,
            seed=self.seed,
            indices=indices,
            cache=self.cache,
            resize_size=self.resize_size,
            unreadable=self.unreadable,
            **position,
        )


def cache_folder(options: Settings, split: Split, config: Settings) -> str | None:
    """Return the folder for decoded images that `options`, a `RunOptions`, ask for, or None."""
    if options.cache_dir == "none":
        return None
    if options.cache_dir != "auto":
        return options.cache_dir
    resize_size = config.resize_size or default_resize_size(config.image_size)
    small = len(split) * resize_size**2 * 3 <= AUTO_CACHE_BYTES
    return os.path.join(options.work_dir, "cache") if small else None
