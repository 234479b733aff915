"""Features that are computed once: if no layer of a trunk is trained, they stay the same.

A step then trains only the head, in a tenth of the time. Files that are mapped into memory keep the
maps that the head looks at: those of each image's central window and of its mirror image.
"""

import functools
import hashlib
import os
import shutil

import numpy as np
import tensorflow as tf

from gc_net.backbones.network import Network
from gc_net.data.pipeline import epoch_order, evaluation_batches, num_steps
from gc_net.data.transforms import center_window
from gc_net.heads.base import feature_shapes
from gc_net.progress import track
from gc_net.run_files import explained_write_errors, read_json, write_json
from gc_net.training.data import TrainingData

# Features that would take more than this are computed again in each step.
LARGEST_BYTES = 8e9
_RECORD = "features.json"
_BATCH_SIZE = 32
_ZEROS = 1 << 20  # bytes that are written at once


def num_bytes(network: Network, num_images: int) -> int:
    """Return the size in bytes of the features of so many images."""
    cells = sum(int(np.prod(shape)) for shape in feature_shapes(network.trunk))
    return 2 * num_images * cells * np.dtype(np.float16).itemsize


class Features:
    """The features of images and of their mirror images, computed if a folder does not have them.

    A view is a number below 2M. It stands for image `indices[view % M]`, mirrored from M on.

    Args:
        folder: Where they are kept.
        network: Its trunk must not be trained later.
        data: The training images.
        indices: [M] images of the split.
    """

    def __init__(self, folder: str, network: Network, data: TrainingData, indices: np.ndarray):
        self.indices = np.asarray(indices)
        self._shapes = feature_shapes(network.trunk)
        self._folder = folder
        record = {"digest": _digest(network, data, self.indices)}
        # Written last: without it, the files belong to a run that was stopped.
        if read_json(os.path.join(folder, _RECORD)) != record:
            remove_features(folder)
            with explained_write_errors(folder):
                os.makedirs(folder)
                self._compute(network, data)
            write_json(os.path.join(folder, _RECORD), record)
        self._maps = [np.load(path, mmap_mode="r", allow_pickle=False) for path in self._paths()]

    @property
    def num_views(self) -> int:
        return 2 * len(self.indices)

    def windows(self, data: TrainingData) -> np.ndarray:
        """Return the window of each view, [2M, 5], see `transforms.random_windows`."""
        top, left = center_window(data.resize_size, data.image_size)[:2]
        rows = np.tile([top, left, 0, data.image_size, data.image_size], (self.num_views, 1))
        rows[len(self.indices) :, 2] = 1
        return rows

    def take(self, views: np.ndarray) -> list[np.ndarray]:
        """Return the maps [B, h, w, C] of views [B], float16."""
        mirrored, rows = np.divmod(views, len(self.indices))
        return [maps[mirrored, rows] for maps in self._maps]

    def batches(
        self,
        batch_size: int,
        *,
        seed: int,
        epoch: int,
        start_step: int = 0,
        num_shards: int = 1,
        shard_index: int = 0,
    ) -> tf.data.Dataset:
        """Return one epoch of (maps, views [B]) in a random order.

        Args:
            batch_size, seed, epoch, start_step, num_shards, shard_index: As
                `pipeline.training_batches` takes them.
        """
        order = epoch_order(self.num_views, seed=seed, epoch=epoch)

        def load(step):
            views = np.array_split(order[step * batch_size :][:batch_size], num_shards)
            views = np.sort(views[shard_index])  # files are read from front to back
            return *self.take(views), views

        def with_shapes(*loaded):
            *maps, views = loaded
            for each, shape in zip(maps, self._shapes, strict=True):
                each.set_shape([None, *shape])
            views.set_shape([None])
            return (tuple(maps) if len(maps) > 1 else maps[0]), views

        types = [*[tf.float16] * len(self._shapes), tf.int64]
        steps = tf.data.Dataset.range(start_step, num_steps(self.num_views, batch_size))
        load = functools.partial(tf.numpy_function, load, Tout=types)
        loaded = steps.map(lambda step: load([step]), num_parallel_calls=2, deterministic=True)
        return loaded.map(with_shapes).prefetch(2)

    def _paths(self):
        return [os.path.join(self._folder, f"{each}.npy") for each in range(len(self._shapes))]

    def _compute(self, network, data):
        count = len(self.indices)
        files = [
            _reserved_map(path, (2, count, *shape))
            for path, shape in zip(self._paths(), self._shapes, strict=True)
        ]
        rows = np.full(len(data.split), -1)
        rows[self.indices] = np.arange(count)

        @tf.function(reduce_retracing=True)
        def features(images):
            found = network.features(tf.cast(images, tf.float32), training=False)
            return [tf.cast(each, tf.float16) for each in tf.nest.flatten(found)]

        batches = evaluation_batches(
            data.split,
            image_size=data.image_size,
            resize_size=data.resize_size,
            batch_size=_BATCH_SIZE,
            indices=self.indices,
            cache=data.cache,
            unreadable=data.unreadable,
        )
        total = num_steps(count, _BATCH_SIZE, drop_remainder=False)
        for batch in track(batches, total, "Computing features"):
            places = rows[batch["index"].numpy()]
            for mirrored, images in enumerate((batch["image"], batch["image"][:, :, ::-1])):
                for file, values in zip(files, features(images), strict=True):
                    file[mirrored, places] = values.numpy()
        for file in files:
            file.flush()


def remove_features(folder: str) -> None:
    """Delete the files of `Features` in a folder, if there are any."""
    if os.path.isdir(folder):
        shutil.rmtree(folder)


def _reserved_map(path, shape):
    """Return a new file, mapped into memory, whose bytes are all on the disk already.

    On a full disk, a map of a file with holes would end the process; this raises an `OSError`.
    """
    mapped = np.lib.format.open_memmap(path, "w+", np.float16, shape)
    with open(path, "r+b", buffering=0) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, os.path.getsize(path))
        else:
            file.seek(mapped.offset)
            for _ in range(0, mapped.nbytes, _ZEROS):
                file.write(bytes(min(_ZEROS, os.path.getsize(path) - file.tell())))
    return mapped


def _digest(network, data, indices):
    """Return a text that changes whenever the features would."""
    digest = hashlib.sha256()
    digest.update(repr((data.resize_size, data.image_size, feature_shapes(network.trunk))).encode())
    digest.update(data.split.fingerprint().encode())
    for array in (indices, *network.trunk.get_weights()):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
