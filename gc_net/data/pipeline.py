"""tf.data pipelines: shuffled, augmented batches to train on, ordered batches to evaluate on.

One call per batch reads, squashes and crops all its images on the threads of `loading`, directly
into the memory of the batch. So training, evaluation and prediction share one decoder, and only a
few batches are in memory, for any number of images.

The content of a step depends only on (seed, epoch, step). Unreadable images do not change that:
each is left out of its own batch, which is then smaller. The number of steps and the other images
stay the same, and a run can resume at any step without reading earlier ones. If no image of a
training batch can be read, it takes the next readable one in the epoch's order.
"""

import contextlib
import functools
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from gc_net.data import transforms
from gc_net.data.cache import ImageCache
from gc_net.data.loading import Loader, Unreadable
from gc_net.data.splits import DataError, Split, Truth

# Two batches at once keep all threads busy while one of them waits for its last image.
_BATCHES_AT_ONCE = 2
_BATCHES_AHEAD = 2


def num_steps(num_images: int, batch_size: int, drop_remainder: bool = True) -> int:
    """Return the number of batches of one pass."""
    return num_images // batch_size if drop_remainder else -(-num_images // batch_size)


def epoch_order(num_images: int, *, seed: int, epoch: int) -> np.ndarray:
    """Return the order of an epoch: a permutation of `num_images` set by seed and epoch alone."""
    key = [seed % 2**64, epoch % 2**64]
    return np.random.default_rng(key).permutation(num_images)


def training_batches(
    split: Split,
    *,
    image_size: int,
    batch_size: int,
    seed: int = 0,
    epoch: int = 0,
    start_step: int = 0,
    indices: Sequence[int] | np.ndarray | None = None,
    cache: ImageCache | str | None = None,
    resize_size: int | None = None,
    augment: bool = True,
    crop_scale: float = 0.0,
    crop_aspect: float = 1.0,
    drop_remainder: bool = True,
    with_index: bool = False,
    unreadable: Unreadable | None = None,
    num_shards: int = 1,
    shard_index: int = 0,
) -> tf.data.Dataset:
    """Return one epoch of shuffled batches; images and labels, and no box anywhere.

    A second pass over the same dataset is the next epoch, and so on: `model.fit(batches,
    epochs=10)` shows the images in ten orders, each in ten crops.

    Args:
        split: The `Split` to train on.
        image_size: Side S of the images the network sees.
        batch_size: Images a step, over all replicas and workers together.
        seed, epoch: Determine the order and every random crop and flip of the first pass.
        start_step: First step to give, when a run resumes; skipped images are not read. Every pass
            begins there.
        indices: [M] images of the split to use, e.g. one half of it; all if None. They keep their
            index, so they have the same cache and augmentation as in the whole split.
        cache: An `ImageCache`, or a folder to keep one in, or None to decode every time.
        resize_size: Side to squash to before cropping. If None, 256 for 224 as in the paper, and
            in proportion for other sizes. Inception-V3's recipe has 299 for 299, which only flips.
        augment: Whether windows are random. Otherwise the central one is taken.
        crop_scale, crop_aspect: How much random windows differ in size and proportions, see
            `transforms.random_windows`.
        drop_remainder: Whether images that fill no whole batch are left out of the epoch. Each
            epoch leaves out others.
        with_index: Whether to give each image's index in the split too.
        unreadable: `Unreadable` that collects images that could not be read. If None, each is
            logged when it is found.
        num_shards, shard_index: Return only this part of the rows of every batch, so that worker i
            of n reads only what it needs, as in `tf.distribute.InputContext`.

    Returns:
        A `tf.data.Dataset` of (images uint8 [B, S, S, 3], labels int32 [B]), and with
        `with_index` also (index int64 [B]).

    Raises:
        DataError: If there are fewer images than make one batch.
    """
    indices = _checked_indices(split, indices)
    steps = num_steps(len(indices), batch_size, drop_remainder)
    if steps == 0:
        raise DataError(
            f"The {split.name!r} split gives {len(indices)} images, fewer than one batch of "
            f"{batch_size}. Lower the batch size, or pass drop_remainder=False."
        )
    if not 0 <= start_step <= steps:
        raise ValueError(f"`start_step` must be from 0 to {steps}. Received: {start_step}.")
    if num_shards > 1 and (batch_size % num_shards or not drop_remainder):
        raise ValueError(
            f"A batch of {batch_size} cannot be shared by {num_shards} workers: it must be a "
            f"multiple of their number, with drop_remainder=True (got {drop_remainder})."
        )
    loader = _loader(split, indices, resize_size, image_size, cache, unreadable)
    center = transforms.center_window(loader.resize_size, image_size)

    @functools.lru_cache(maxsize=2)  # a pass may begin while the last batches of another are made
    def drawn(epoch):
        """Return the order and the windows of an epoch."""
        order = indices[epoch_order(len(indices), seed=seed, epoch=epoch)]
        windows = augment and transforms.random_windows(
            len(split),
            loader.resize_size,
            image_size,
            seed=seed,
            epoch=epoch,
            crop_scale=crop_scale,
            crop_aspect=crop_aspect,
        )
        return order, windows

    drawn(epoch)  # raises its errors here, before TensorFlow would wrap them

    def load(epoch, step):
        order, windows = drawn(int(epoch))

        def windows_of(index):
            return [transforms.window_of(windows[index]) if augment else center]

        rows = np.array_split(order[step * batch_size :][:batch_size], num_shards)[shard_index]
        images, _, readable = loader.load(rows, windows_of)
        rows = rows[readable]
        beyond = (step + 1) * batch_size
        while not len(rows):
            candidate = order[[beyond % len(order)]]
            images, _, readable = loader.load(candidate, windows_of)
            rows = candidate[readable]
            beyond += 1
        return images[:, 0], split.labels[rows].astype(np.int32), rows

    positions = _positions(epoch, range(start_step, steps))
    dataset = _batches(load, positions, (tf.uint8, tf.int32, tf.int64))

    def with_shapes(images, labels, index):
        images.set_shape([None, image_size, image_size, 3])
        labels.set_shape([None])
        index.set_shape([None])
        return (images, labels, index) if with_index else (images, labels)

    return _finished(dataset.map(with_shapes), sharded=num_shards > 1)


def evaluation_batches(
    split: Split,
    truth: Truth | None = None,
    *,
    image_size: int,
    batch_size: int,
    frame: str = "crop",
    ten_crop: bool = False,
    indices: Sequence[int] | np.ndarray | None = None,
    cache: ImageCache | str | None = None,
    resize_size: int | None = None,
    unreadable: Unreadable | None = None,
) -> tf.data.Dataset:
    """Return batches in the order of the split, each a dict.

    Args:
        split: The `Split` to evaluate on.
        truth: Its `Truth`; without it there are no boxes in the batches.
        image_size: Side S of the images the network sees.
        batch_size: Images a batch; the last one may be smaller.
        frame: `"crop"`, the central window of the squashed image, or `"full"`, the whole image
            squashed to `image_size`.
        ten_crop: Whether `image` holds ten windows of every image: the corners and the centre, then
            the same flipped. Boxes are still those of the central window.
        indices: [M] images of the split to evaluate, in that order; all if None.
        cache, resize_size, unreadable: As for `training_batches`. An unreadable image is left out,
            and is missing from the `index`es.

    Returns:
        A `tf.data.Dataset` of dicts:
            image: uint8 [B, S, S, 3], or [B, 10, S, S, 3] with `ten_crop`.
            label: int32 [B].
            index: int64 [B], place in the split.
            size: int32 [B, 2], height and width of the original image.
            boxes_rel_xyxy: float32 [B, K, 4], relative to the frame, not clipped, padded with
                zeros to the largest number K of boxes an image of the split has.
            num_boxes: int32 [B].
    """
    if frame not in ("crop", "full"):
        raise ValueError(f"`frame` must be 'crop' or 'full'. Received: {frame!r}.")
    if frame == "full":
        if ten_crop or resize_size not in (None, image_size):
            raise ValueError("The 'full' frame has no crops: leave out ten_crop and resize_size.")
        resize_size = image_size
    indices = _checked_indices(split, indices)
    loader = _loader(split, indices, resize_size, image_size, cache, unreadable)
    center = transforms.center_window(loader.resize_size, image_size)
    windows = transforms.ten_windows(loader.resize_size, image_size) if ten_crop else [center]
    window_shape = [10] if ten_crop else []
    specs = {
        "image": tf.TensorSpec([None, *window_shape, image_size, image_size, 3], tf.uint8),
        "label": tf.TensorSpec([None], tf.int32),
        "index": tf.TensorSpec([None], tf.int64),
        "size": tf.TensorSpec([None, 2], tf.int32),
    }
    if truth is not None:
        most_boxes = max(1, int(np.diff(truth.starts).max()))
        specs["boxes_rel_xyxy"] = tf.TensorSpec([None, most_boxes, 4], tf.float32)
        specs["num_boxes"] = tf.TensorSpec([None], tf.int32)

    def load(step):
        rows = indices[step * batch_size :][:batch_size]
        images, sizes, readable = loader.load(rows, lambda index: windows)
        rows = rows[readable]
        batch = [images if ten_crop else images[:, 0], split.labels[rows].astype(np.int32)]
        batch += [rows, sizes]
        if truth is not None:
            boxes_xyxy, num_boxes = padded_boxes(truth, rows, most_boxes)
            boxes_rel_xyxy = transforms.boxes_in_window(
                boxes_xyxy, sizes[:, None], center, loader.resize_size, image_size
            )
            is_box = np.arange(most_boxes) < num_boxes[:, None]  # [B, K]
            batch += [np.where(is_box[..., None], boxes_rel_xyxy, np.float32(0)), num_boxes]
        return batch

    def named(*tensors):
        batch = dict(zip(specs, tensors, strict=True))
        for name, spec in specs.items():
            batch[name].set_shape(spec.shape)
        return batch

    steps = num_steps(len(indices), batch_size, drop_remainder=False)
    positions = tf.data.Dataset.range(steps)
    dataset = _batches(load, positions, [spec.dtype for spec in specs.values()]).map(named)
    return _finished(dataset.filter(lambda batch: tf.size(batch["label"]) > 0))


@contextlib.contextmanager
def explained(unreadable: Unreadable, num_images: int, message: str) -> Iterator[None]:
    """Raise a plain `DataError`, within the `with` block, if not a single image can be read.

    Args:
        unreadable: The `Unreadable` of the batches.
        num_images: How many images there should be.
        message: Text before the files and their reasons.
    """
    try:
        yield
    except tf.errors.OpError:
        # An error of the loader's threads arrives wrapped in one of TensorFlow's.
        if len(unreadable) < num_images:
            raise
        raise DataError(f"{message}{unreadable.summary()}") from None


def padded_boxes(truth: Truth, rows: np.ndarray, most_boxes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the true boxes of images, [B, K, 4] in pixels padded with zeros, and their numbers."""
    num_boxes = (truth.starts[rows + 1] - truth.starts[rows]).astype(np.int32)
    boxes_xyxy = np.zeros((len(rows), most_boxes, 4), np.float32)
    for row, index in enumerate(rows):
        boxes_xyxy[row, : num_boxes[row]] = truth.boxes_of(index)
    return boxes_xyxy, num_boxes


def _checked_indices(split, indices):
    if len(split) == 0:
        raise DataError(f"The {split.name!r} split in {split.root} is empty.")
    if indices is None:
        return np.arange(len(split))
    indices = np.asarray(indices, np.int64)
    if indices.ndim != 1 or not len(indices):
        raise ValueError(f"`indices` must be a list of images. Received shape: {indices.shape}.")
    if indices.min() < 0 or indices.max() >= len(split):
        raise ValueError(
            f"`indices` must be from 0 to {len(split) - 1}. Received: {indices.min()} to "
            f"{indices.max()}."
        )
    return indices


def _loader(split, indices, resize_size, image_size, cache, unreadable):
    resize_size = resize_size or transforms.default_resize_size(image_size)
    if cache is not None and not isinstance(cache, ImageCache):
        cache = ImageCache(cache, split, resize_size)
    if cache is not None and not cache.fits(split, resize_size):
        raise ValueError(
            f"The cache {cache.path} holds the {cache.split.name!r} split at {cache.resize_size} "
            f"pixels; the {split.name!r} split at {resize_size} is asked for."
        )
    if unreadable is None:
        unreadable = Unreadable(announce=True)
    return Loader(split, resize_size, image_size, cache, unreadable, len(np.unique(indices)))


def _positions(first_epoch, steps):
    """Return a dataset of (epoch, step): each pass over it is the next epoch."""
    epochs = itertools.count(first_epoch)

    def one_epoch(_):
        epoch = tf.numpy_function(lambda: np.int64(next(epochs)), [], tf.int64)
        epoch.set_shape([])
        return tf.data.Dataset.range(steps.start, steps.stop).map(lambda step: (epoch, step))

    dataset = tf.data.Dataset.from_tensors(0).flat_map(one_epoch)
    return dataset.apply(tf.data.experimental.assert_cardinality(len(steps)))


def _batches(load, positions, dtypes):
    """Return the batches that `load` makes of the elements of the dataset `positions`."""
    return positions.map(
        lambda *position: tf.numpy_function(load, position, dtypes),
        num_parallel_calls=_BATCHES_AT_ONCE,
        deterministic=True,
    )


def _finished(dataset, sharded=False):
    options = tf.data.Options()
    policies = tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = policies.OFF if sharded else policies.DATA
    # Threads of its own: waiting for images must not hold up the operations of the model.
    options.threading.private_threadpool_size = _BATCHES_AT_ONCE + 1
    return dataset.prefetch(_BATCHES_AHEAD).with_options(options)
