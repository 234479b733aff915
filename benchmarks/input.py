"""Images a second of the input pipeline, beside Keras' own in the same run on the same files."""

import dataclasses
import os
import statistics
import tempfile
import time

import keras

from benchmarks.rounds import conditions, table
from gc_net import datasets
from gc_net.data.cache import ImageCache
from gc_net.data.pipeline import training_batches
from gc_net.data.splits import DataError
from gc_net.data.transforms import default_resize_size

KERAS = "keras.utils.image_dataset_from_directory"
SAME = "training_batches, no cache, squashed only, as Keras does"
COLD = "training_batches, no cache, squashed, cropped and flipped"
FIRST = "training_batches, first epoch, filling the cache"
SECOND = "training_batches, second epoch, cached"


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Attributes:
    image_size: Side of the images.
    name: What was measured.
    images_per_second: Median over the rounds.
    ratio: Median over the rounds of its speed relative to Keras' in the same round.
    cpu_ms: Median processor time an image takes, over all threads; what a training step on the
        same processor has to go without, and little disturbed by other work on the machine.
    """

    image_size: int
    name: str
    images_per_second: float
    ratio: float
    cpu_ms: float


def report(
    *,
    dataset="folder",
    data_dir=None,
    image_sizes=(128, 224),
    batch_size=32,
    num_images=2000,
    rounds=5,
):
    """Measure the training split of a dataset; see `measure_input`."""
    split = datasets.get(dataset, data_dir=data_dir).split("train")
    yield f"{conditions()}, {num_images} images, medians of {rounds} rounds"
    yield as_table(
        measure_input(
            split,
            image_sizes=image_sizes,
            batch_size=batch_size,
            num_images=num_images,
            rounds=rounds,
        )
    )


def measure_input(split, *, image_sizes=(128, 224), batch_size=32, num_images=2000, rounds=5):
    """Measure one pass over images of a split, each way in turn, several rounds.

    The ways take turns, since other work on a machine comes and goes: ratios within a round say
    more than absolute figures. Files are read once beforehand, so that no way finds a colder disk
    than the others.

    Args:
        split: A `Split` of image files.
        image_sizes: Sides to measure at.
        batch_size: Images a batch.
        num_images: How many images of the split to read, evenly spaced.
        rounds: How often each way has its turn.

    Returns:
        A list of `Measurement`s.
    """
    num_images = min(num_images, len(split))
    indices = [position * len(split) // num_images for position in range(num_images)]
    measurements = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = _linked_folder(split, indices, os.path.join(scratch, "images"))
        for image_size in image_sizes:
            rounds_of = {KERAS: [], SAME: [], COLD: [], FIRST: [], SECOND: []}
            for round_number in range(rounds):
                caches = os.path.join(scratch, f"{image_size}-{round_number}")
                cache = ImageCache(caches, split, default_resize_size(image_size))

                def ours(epoch=0, image_size=image_size, cache=cache, **options):
                    return training_batches(
                        split,
                        image_size=image_size,
                        batch_size=batch_size,
                        epoch=epoch,
                        indices=indices,
                        cache=cache,
                        drop_remainder=False,
                        **options,
                    )

                keras_batches = _keras_batches(folder, image_size, batch_size)
                rounds_of[KERAS].append(_timed(keras_batches, num_images))
                plain = ours(cache=None, resize_size=image_size, augment=False)
                rounds_of[SAME].append(_timed(plain, num_images))
                rounds_of[COLD].append(_timed(ours(cache=None), num_images))
                rounds_of[FIRST].append(_timed(ours(), num_images))
                rounds_of[SECOND].append(_timed(ours(epoch=1), num_images))
            measurements += _summarised(image_size, rounds_of)
    return measurements


def as_table(measurements):
    """Return measurements as a Markdown table."""
    rows = [
        [
            item.image_size,
            item.name,
            f"{item.images_per_second:,.0f}",
            f"{item.ratio:.2f}×",
            f"{item.cpu_ms:.2f}",
        ]
        for item in measurements
    ]
    header = ["image size", "input", "images/s", "ratio to Keras", "processor ms an image"]
    return table(header, rows)


def _linked_folder(split, indices, folder):
    """Make a folder of links to the images, one folder a class, as Keras expects it."""
    for index in indices:
        source = os.path.abspath(os.path.join(split.root, split.file(index)))
        if not os.path.exists(source):
            raise DataError(f"There is no file {source}: this measures reading image files.")
        with open(source, "rb") as file:
            file.read()  # into the page cache
        class_folder = os.path.join(folder, f"{split.labels[index]:05d}")
        os.makedirs(class_folder, exist_ok=True)
        extension = os.path.splitext(source)[1]
        os.symlink(source, os.path.join(class_folder, f"{index:08d}{extension}"))
    return folder


def _keras_batches(folder, image_size, batch_size):
    return keras.utils.image_dataset_from_directory(
        folder, image_size=(image_size, image_size), batch_size=batch_size, seed=0, verbose=False
    )


def _timed(dataset, num_images):
    """Return images a second and processor seconds an image of one pass."""
    start, cpu_start = time.perf_counter(), time.process_time()
    seen = sum(len(batch[1]) for batch in dataset)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    if seen != num_images:
        raise DataError(f"Read {seen} of {num_images} images; check the dataset first.")
    return seen / seconds, cpu_seconds / seen


def _summarised(image_size, rounds_of):
    keras_speeds = [speed for speed, _ in rounds_of[KERAS]]
    for name, results in rounds_of.items():
        speeds, cpu_seconds = zip(*results, strict=True)
        ratios = [speed / other for speed, other in zip(speeds, keras_speeds, strict=True)]
        yield Measurement(
            image_size=image_size,
            name=name,
            images_per_second=statistics.median(speeds),
            ratio=statistics.median(ratios),
            cpu_ms=1000 * statistics.median(cpu_seconds),
        )
