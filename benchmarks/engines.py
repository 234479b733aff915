"""Engines beside each other: the forward pass, files to a COCO file, and an evaluation."""

import functools

import numpy as np

from benchmarks.images import image_files
from benchmarks.predict import FILES, FORWARD, JUDGED, measure_speed, model_folder
from benchmarks.rounds import conditions, in_turn, table
from gc_net import datasets, engines
from gc_net.data.transforms import squash
from gc_net.engines.int8 import Int8
from gc_net.evaluation.checks import spread
from gc_net.evaluation.evaluate import evaluate
from gc_net.export.tflite import squashed_files
from gc_net.localizer import load

NUM_CALIBRATION = 50
CONFIDENCES = ("no", "yes")


def report(
    *,
    model=None,
    backbone="efficientnet_lite0",
    image_size=128,
    images=None,
    num_images=128,
    dataset=None,
    data_dir=None,
    batch_size=32,
    rounds=3,
    seed=0,
):
    """Measure every engine in turn.

    Args:
        model: Folder of a model; an untrained one is made if None.
        backbone, image_size: Of an untrained model.
        images: See `find_images`; creatures of 256 pixels are drawn if None.
        num_images: How many images to use.
        dataset, data_dir: Of an evaluation, with the model's classes; none is measured without.
        batch_size: Images a batch.
        rounds: How often each has its turn.
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
        rows, squashed = [], squashed_files(root, files[:NUM_CALIBRATION], 256)
        for confidence in CONFIDENCES:
            timings = measure_speed(
                folder,
                root,
                files,
                **JUDGED[confidence],
                batch_size=batch_size,
                rounds=rounds,
                asked_engines=all_engines(squashed),
            )
            rows += [[confidence, *row] for row in speed_rows(timings, len(files))]
        header = ["confidence", "engine", f"{FORWARD}, images/s", "faster", "in processor time"]
        header += [f"{FILES}, images/s", "faster", "in processor time", f"× {FORWARD}"]
        yield table(header, rows)
        if dataset is not None:
            data = datasets.get(dataset, data_dir=data_dir)
            timings = measure_evaluation(load(folder), data, num_images, batch_size, rounds)
            header = ["engine", "evaluation, images/s", "faster", "in processor time"]
            yield table(
                header,
                [[name, *_compared(timings, name, num_images)] for name in timings.wall],
            )


def speed_rows(timings, num_images):
    """Return a row for each engine of what `measure_speed` has found."""
    rows = []
    for name in engines.ENGINES:
        forward, whole = (FORWARD, name), (FILES, name)
        compared = [
            cell for way in (forward, whole) for cell in _compared(timings, way, num_images)
        ]
        rows.append([name, *compared, f"{timings.ratio(whole, forward):.2f}×"])
    return rows


def all_engines(images):
    """Return every engine by its name; one that is calibrated is so on `images`, [N, R, R, 3]."""
    return {name: Int8(images) if name == Int8.name else name for name in engines.ENGINES}


def measure_evaluation(localizer, dataset, num_images, batch_size=32, rounds=3):
    """Return the `Timings` of an evaluation of the model alone by each engine."""
    train = dataset.split("train")
    chosen = spread(len(train), NUM_CALIBRATION)
    used = all_engines(np.stack([squash(train.read(index), 256) for index in chosen]))

    def run(engine):
        asked = {"methods": (), "limit": num_images, "batch_size": batch_size}
        evaluate(localizer, dataset, engine=engine, **asked)

    return in_turn({name: functools.partial(run, used[name]) for name in used}, rounds)


def _compared(timings, way, num_images):
    """Return images a second, and how much faster that is than by TensorFlow."""
    same = (way[0], "tensorflow") if isinstance(way, tuple) else "tensorflow"
    return [
        f"{num_images / timings.seconds(way):.1f}",
        f"{timings.ratio(same, way):.2f}×",
        f"{timings.processor_ratio(same, way):.2f}×",
    ]
