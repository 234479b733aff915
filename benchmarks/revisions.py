"""Checkouts of several revisions beside each other: files to a COCO file, and an evaluation.

Each revision runs in a process of its own, which takes its turn when it is told to. So this can
compare with any revision that `benchmarks.revision_process` knows how to ask.
"""

import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile

from benchmarks.images import image_files
from benchmarks.revision_process import WAYS
from benchmarks.rounds import Elapsed, conditions, in_turn, table

_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "revision_process.py")


def report(
    *,
    folders,
    backbone="efficientnet_lite0",
    train_from="block4a",
    image_sizes=(128, 224),
    images=None,
    num_images=128,
    dataset=None,
    data_dir=None,
    batch_size=32,
    rounds=3,
    seed=0,
):
    """Measure each revision in turn.

    Args:
        folders: Folders of checkouts; the first is what others are compared with.
        backbone: Of untrained networks, see `benchmarks.revision_process`.
        train_from: The layers before it are the same in all networks.
        image_sizes: Sides of the images.
        images: See `find_images`; creatures of 256 pixels are drawn if None.
        num_images: How many images to use.
        dataset, data_dir: Of an evaluation; none is measured without.
        batch_size: Images a batch.
        rounds: How often each has its turn.
        seed: Of drawn images.
    """
    yield (
        f"{conditions()}, {num_images} images, batches of {batch_size}, seed {seed}, "
        f"medians of {rounds} rounds"
    )
    ways = [way for way in WAYS if dataset or not WAYS[way].evaluates]
    header = ["image size", "what", "revision", "images/s", "processor ms an image"]
    header += ["faster", "in processor time"]
    with image_files(images, num_images, seed=seed) as (root, files):
        for image_size in image_sizes:
            asked = {
                "backbone": backbone,
                "train_from": train_from,
                "image_size": image_size,
                "files": [os.path.join(root, name) for name in files],
                "dataset": dataset and [dataset, data_dir],
                "batch_size": batch_size,
            }
            timings = measure(folders, ways, asked, rounds)
            rows = [
                [
                    image_size,
                    way,
                    os.path.basename(os.path.abspath(folder)),
                    f"{len(files) / timings.seconds((way, folder)):.1f}",
                    f"{1000 * timings.processor_seconds((way, folder)) / len(files):.1f}",
                    f"{timings.ratio((way, folders[0]), (way, folder)):.2f}×",
                    f"{timings.processor_ratio((way, folders[0]), (way, folder)):.2f}×",
                ]
                for way in ways
                for folder in folders
            ]
            yield table(header, rows)


def measure(folders, ways, asked, rounds):
    """Return the `Timings` of each way by each revision: {(way, folder): ...}."""
    with contextlib.ExitStack() as stack:
        processes = {folder: stack.enter_context(_process(folder, asked)) for folder in folders}
        turns = {
            (way, folder): functools.partial(_turn, process, way)
            for way in ways
            for folder, process in processes.items()
        }
        return in_turn(turns, rounds)


@contextlib.contextmanager
def _process(folder, asked):
    environment = {**os.environ, "PYTHONPATH": os.path.abspath(folder)}
    with tempfile.TemporaryDirectory() as scratch:
        process = subprocess.Popen(
            [sys.executable, "-P", _PROGRAM, json.dumps({**asked, "scratch": scratch})],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.stdin.close()
            process.wait()


def _turn(process, way):
    process.stdin.write(f"{way}\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        raise RuntimeError(f"The process of a revision ended: {process.wait()}")
    return Elapsed(json.loads(answer))
