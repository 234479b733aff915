"""Images a second from files to a COCO file, beside the model's own forward pass."""

import dataclasses
import os
import tempfile
import time

import numpy as np
import tensorflow as tf

import gc_net
from gc_net import shapes
from gc_net.datasets.base import DataError
from gc_net.generators.model import ModelGenerator
from gc_net.inference.find import find_images
from gc_net.inference.run import predict_files
from gc_net.saving import save_model


@dataclasses.dataclass(frozen=True)
class Speed:
    """Attributes:
    confidence: Whether the localizations were judged.
    forward: Images a second of the forward pass alone, on batches in memory; median over rounds.
    files: Images a second from image files to a COCO file; likewise.
    ratio: Median over the rounds of how much longer the latter takes.
    cpu_ratio: Likewise of processor time, which other work on the machine disturbs less.
    """

    confidence: bool
    forward: float
    files: float
    ratio: float
    cpu_ratio: float


def untrained_model(folder, backbone, image_size, num_classes=200):
    """Write a model to `folder`: an untrained one is as fast as a trained one."""
    shape = shapes.get("rotated_ellipse")
    parts = {"backbone": backbone, "image_size": image_size, "weights": None}
    model = gc_net.GCNet(
        gc_net.Detector(num_coefficients=shape.num_coefficients, **parts),
        ModelGenerator(shape, image_size),
        gc_net.Classifier(num_classes=num_classes, **parts),
    )
    save_model(folder, model, [f"class {index}" for index in range(num_classes)])


def measure_speed(model_dir, images, *, confidence, batch_size=32, num_images=500, rounds=3):
    """Time the forward pass and the whole way in turn, on the same number of images.

    Args:
        model_dir: Folder of a model.
        images: See `find_images`.
        confidence: Whether to judge each localization.
        batch_size: Images a batch.
        num_images: How many images to use.
        rounds: How often each has its turn; other work on a machine comes and goes.
    """
    localizer = gc_net.load(model_dir)
    root, files = find_images(images)
    files = files[:num_images]
    size = localizer.image_size
    batch = tf.constant(
        np.random.default_rng(0).integers(0, 256, (batch_size, size, size, 3), np.uint8)
    )
    sizes = np.full((batch_size, 2), size)
    # Both once before the clock runs: tracing, and files into the page cache.
    localizer.predict(
        [os.path.join(root, file) for file in files], batch_size, confidence=confidence
    )
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        listing = os.path.join(scratch, "images.txt")
        with open(listing, "w", encoding="utf-8") as file:
            file.writelines(f"{os.path.join(root, name)}\n" for name in files)
        for number in range(rounds):
            start = _clocks()
            for first in range(0, len(files), batch_size):
                count = min(batch_size, len(files) - first)
                localizer.forward(batch[:count], sizes[:count], confidence=confidence)
            between = _clocks()
            summary = predict_files(
                model_dir,
                listing,
                os.path.join(scratch, str(number)),
                batch_size=batch_size,
                confidence=confidence,
                localizer=localizer,
            )
            end = _clocks()
            if summary.unreadable:
                raise DataError(f"Images cannot be read: {summary.text()}")
            results.append((between - start, end - between))  # rows of wall and processor time
    bare, whole = np.moveaxis(np.array(results), 1, 0)  # [rounds, 2] each
    ratio, cpu_ratio = np.median(whole / bare, axis=0).tolist()
    forward, files_time = np.median(bare[:, 0]), np.median(whole[:, 0])
    return Speed(confidence, len(files) / forward, len(files) / files_time, ratio, cpu_ratio)


def _clocks():
    return np.array([time.perf_counter(), time.process_time()])


def measure_memory(model_dir, images, *, num_images=50_000, batch_size=32, samples=10):
    """Predict on links to `images`, many times over, and watch the memory of the process.

    Returns:
        List of (images done, resident megabytes), evenly spaced.
    """
    root, files = find_images(images)
    localizer = gc_net.load(model_dir)
    every = max(1, num_images // batch_size // samples) * batch_size
    done, found = 0, []
    forward = localizer.forward

    def watched(images, sizes, **options):
        nonlocal done
        done += len(sizes)
        if done % every < batch_size:
            found.append((done, _resident_megabytes()))
        return forward(images, sizes, **options)

    localizer.forward = watched
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(scratch, "images")
        os.mkdir(folder)
        for index in range(num_images):
            source = os.path.join(root, files[index % len(files)])
            suffix = os.path.splitext(source)[1]
            os.symlink(source, os.path.join(folder, f"{index:06d}{suffix}"))
        output = os.path.join(scratch, "out")
        predict_files(model_dir, folder, output, batch_size=batch_size, localizer=localizer)
    found.append((num_images, _resident_megabytes()))
    return found


def _resident_megabytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
