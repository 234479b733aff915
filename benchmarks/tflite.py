"""TFLite with floats and with 8-bit integers beside the Keras graph, one image at a time."""

import numpy as np
import tensorflow as tf

from benchmarks.images import image_files
from benchmarks.predict import model_folder
from benchmarks.rounds import conditions, in_turn, table
from gc_net.export.tflite import TFLiteModule, compare, convert, squashed_files
from gc_net.localizer import load
from gc_net.prediction.graph import localize

KERAS, FLOAT, INTEGER = "Keras graph", "TFLite float32", "TFLite int8"


def report(
    *,
    model=None,
    backbone="efficientnet_lite0",
    image_size=128,
    images=None,
    num_images=100,
    rounds=5,
    seed=0,
):
    """Measure speed, size and how far each is from Keras.

    Args:
        model: Folder of a model; an untrained one is made if None.
        backbone, image_size: Of an untrained model.
        images: To calibrate and compare on, see `find_images`; drawn if None.
        num_images: How many of them.
        rounds: How often each has its turn.
        seed: Of drawn images.
    """
    yield f"{conditions()}, {num_images} images, seed {seed}, medians of {rounds} rounds"
    with (
        model_folder(model, backbone, image_size) as folder,
        image_files(images, num_images, seed=seed) as (root, files),
    ):
        timings, differences, sizes = measure(folder, root, files, rounds)
    names = next(iter(differences.values()))
    rows = []
    for way in timings.wall:
        rows.append(
            [
                way,
                f"{1 / timings.seconds(way):.1f}",
                f"{timings.ratio(KERAS, way):.2f}×",
                f"{timings.processor_ratio(KERAS, way):.2f}×",
                f"{sizes[way] / 1e6:.1f}" if way in sizes else "",
                *(f"{differences[way][name]:.2g}" if way in sizes else "" for name in names),
            ]
        )
    header = ["", "images/s", "faster", "in processor time", "MB"]
    yield table([*header, *(_title(name) for name in names)], rows)


def measure(model_dir, root, files, rounds, num_compared=32, num_threads=None):
    """Return `Timings` of one image, {file: {output: difference}} and {file: bytes}.

    Images are `files`, named from the folder `root`.
    """
    localizer = load(model_dir)
    calibration = squashed_files(root, files, localizer.resize_size)
    module = TFLiteModule(localizer)
    contents = {FLOAT: convert(module), INTEGER: convert(module, calibration)}
    compared = calibration[:num_compared]
    differences = {name: compare(localizer, data, compared) for name, data in contents.items()}
    image = calibration[:1].astype(np.float32)
    graph = tf.function(lambda images: localize(localizer, images))
    ways = {KERAS: lambda: graph(tf.constant(image))["boxes"].numpy()}
    threads = num_threads or tf.config.threading.get_intra_op_parallelism_threads() or 2
    for name, data in contents.items():
        interpreter = tf.lite.Interpreter(model_content=data, num_threads=threads)
        runner = interpreter.get_signature_runner()
        ways[name] = lambda runner=runner: runner(images=image)
    timings = in_turn(ways, rounds, calls=3)
    return timings, differences, {name: len(data) for name, data in contents.items()}


def _title(name):
    return name if name.startswith("mean") else f"{name}, largest difference"
