"""Images a second from files to a COCO file, beside the model's own forward pass alone."""

import contextlib
import functools
import itertools
import os
import tempfile
from types import MappingProxyType

import numpy as np
import tensorflow as tf

from benchmarks.images import image_files
from benchmarks.models import write_untrained_model
from benchmarks.rounds import conditions, in_turn, table
from gc_net import engines
from gc_net.data.decode import decode_with_size, read_bytes
from gc_net.data.splits import DataError
from gc_net.data.transforms import central, squash
from gc_net.localizer import load
from gc_net.prediction import formats
from gc_net.prediction.graph import classify, concluded
from gc_net.prediction.log import PredictionLog
from gc_net.prediction.predict_files import predict_files

FORWARD, FILES = "forward pass alone", "files to COCO"
READ, DECODE, SQUASH = "read", "decode", "squash"
DETECTOR, CLASSIFIER = "detector", "classifier"
PREDICTIONS, LOG, COCO = "predictions in pixels", "log", "COCO file"
PARTS = (READ, DECODE, SQUASH, DETECTOR, CLASSIFIER, PREDICTIONS, LOG, COCO)

# What is asked beside the shape and the class, by its name in the table.
JUDGED = {
    "no": {"confidence": False},
    "yes": {"confidence": True},
    "evidence": {"confidence": False, "evidence": True},
}


def report(
    *,
    model=None,
    backbone="efficientnet_lite0",
    image_size=128,
    images=None,
    num_images=128,
    batch_size=32,
    rounds=3,
    seed=0,
):
    """Measure the whole way, and where its time goes.

    Args:
        model: Folder of a model; an untrained one is made if None.
        backbone, image_size: Of an untrained model.
        images: See `find_images`; creatures of 256 pixels are drawn if None.
        num_images: How many images to use.
        batch_size: Images a batch.
        rounds: How often each has its turn; other work on a machine comes and goes.
        seed: Of drawn images.
    """
    yield (
        f"{conditions()}, {num_images} images, batches of {batch_size}, seed {seed}, "
        f"medians of {rounds} rounds"
    )
    with (
        model_folder(model, backbone, image_size) as folder,
        image_files(images, num_images, seed=seed) as (root, files),
    ):
        rows = []
        for name, judged in JUDGED.items():
            timings = measure_speed(
                folder, root, files, **judged, batch_size=batch_size, rounds=rounds
            )
            forward, whole = (FORWARD, engines.AUTO), (FILES, engines.AUTO)
            rows.append(
                [
                    name,
                    *(f"{len(files) / timings.seconds(way):.1f}" for way in (forward, whole)),
                    f"{timings.ratio(whole, forward):.2f}×",
                    f"{timings.processor_ratio(whole, forward):.2f}×",
                ]
            )
        header = ["confidence", f"{FORWARD}, images/s", f"{FILES}, images/s", "time", "processor"]
        yield table(header, rows)
        timings = measure_parts(folder, root, files, batch_size=batch_size, rounds=rounds)
        milliseconds = [1000 * timings.processor_seconds(part) / len(files) for part in PARTS]
        rows = [
            [part, f"{time:.2f}", f"{100 * time / sum(milliseconds):.1f} %"]
            for part, time in zip(PARTS, milliseconds, strict=True)
        ]
        yield table(["part, without confidence", "processor ms an image", "share"], rows)


@contextlib.contextmanager
def model_folder(model, backbone, image_size):
    """Give the folder of a model: `model`, or an untrained one for the block."""
    if model is not None:
        yield model
        return
    with tempfile.TemporaryDirectory() as scratch:
        write_untrained_model(scratch, backbone, image_size)
        yield scratch


def measure_speed(
    model_dir,
    root,
    files,
    *,
    confidence,
    evidence=False,
    batch_size=32,
    rounds=3,
    asked_engines=MappingProxyType({engines.AUTO: engines.AUTO}),
):
    """Return the `Timings` of both ways by each engine: {(way, engine's name): ...}.

    The forward pass alone is that of the second look too, where the model has one.
    """
    localizer = load(model_dir)
    used = {
        name: engines.ready(engine, localizer.networks, len(files))
        for name, engine in asked_engines.items()
    }

    with tempfile.TemporaryDirectory() as scratch:
        listing = os.path.join(scratch, "images.txt")
        with open(listing, "w", encoding="utf-8") as file:
            file.writelines(f"{os.path.join(root, name)}\n" for name in files)
        outputs = (os.path.join(scratch, str(number)) for number in itertools.count())

        def whole(engine):
            summary = predict_files(
                model_dir,
                listing,
                next(outputs),
                batch_size=batch_size,
                confidence=confidence,
                evidence=evidence,
                engine=engine,
                localizer=localizer,
            )
            if summary.unreadable:
                raise DataError(f"Images cannot be read: {summary.text()}")

        ways = {}
        for name, engine in used.items():
            forward = forward_pass(localizer, batch_size, engine, confidence, evidence)
            ways[FORWARD, name] = functools.partial(forward, len(files))
            ways[FILES, name] = functools.partial(whole, engine)
        return in_turn(ways, rounds)


def forward_pass(localizer, batch_size, engine, confidence, evidence=False):
    """Return a function that gives so many images, which are noise, to all networks."""
    random, classifier = np.random.default_rng(0), localizer.close_up_classifier

    def noise(size):
        return tf.constant(random.integers(0, 256, (batch_size, size, size, 3), np.uint8))

    batch, close_ups = noise(localizer.resize_size), noise(classifier.image_size)
    look_closer = tf.function(lambda images: classify(classifier, images, engine))

    def run(num_images):
        for first in range(0, num_images, batch_size):
            count, second = min(batch_size, num_images - first), None
            outputs = localizer.first_look(batch[:count], confidence, evidence, engine)
            if localizer.second_look:
                second = look_closer(close_ups[:count])
            concluded(outputs, second)["boxes"].numpy()

    return run


def measure_parts(model_dir, root, files, *, batch_size=32, rounds=3):
    """Return the `Timings` of each part of the way alone, for all files, one after the other."""
    localizer = load(model_dir)
    size = localizer.resize_size
    paths = [os.path.join(root, file) for file in files]
    encoded = [read_bytes(path) for path in paths]
    decoded = [decode_with_size(data, size) for data in encoded]
    squashed = np.stack([squash(image, size) for image, _ in decoded])
    sizes = np.array([size for _, size in decoded])
    batches = [
        tf.constant(squashed[first:][:batch_size]) for first in range(0, len(files), batch_size)
    ]
    outputs = localizer.conclude(localizer.first_look(batches[0], confidence=False))
    repeats = -(-len(files) // len(outputs["boxes"]))
    outputs = {
        name: np.concatenate([value] * repeats)[: len(files)] for name, value in outputs.items()
    }
    results = list(zip(files, localizer.predictions(outputs, sizes), strict=True))
    label_format = formats.get("coco")

    engine = engines.ready(engines.AUTO, localizer.networks, len(files))

    def network(network):
        forward, seen = engine.forward(network), network.image_size
        traced = tf.function(lambda images: forward(network.normalize(tf.cast(images, "float32"))))
        return lambda: [traced(central(batch, seen)).numpy() for batch in batches]

    with tempfile.TemporaryDirectory() as scratch:
        numbers = itertools.count()

        def log():
            with PredictionLog(os.path.join(scratch, str(next(numbers))), {}) as log:
                for result in results:
                    log.append(*result)

        return in_turn(
            {
                READ: lambda: [read_bytes(path) for path in paths],
                DECODE: lambda: [decode_with_size(data, size) for data in encoded],
                SQUASH: lambda: [squash(image, size) for image, _ in decoded],
                DETECTOR: network(localizer.detector),
                CLASSIFIER: network(localizer.classifier),
                PREDICTIONS: lambda: localizer.predictions(outputs, sizes),
                LOG: log,
                COCO: lambda: label_format.write(scratch, results, localizer.class_names),
            },
            rounds,
        )
