"""From the start of a process to its first prediction, and to its second."""

import os
import subprocess
import sys

import numpy as np

from benchmarks.predict import model_folder
from benchmarks.rounds import conditions, table

STEPS = ("importing TensorFlow", "loading the model", "first prediction", "second prediction")

_PROGRAM = """
import sys, time
import tools
clocks = [(time.perf_counter(), time.process_time())]
def done():
    clocks.append((time.perf_counter(), time.process_time()))
import tensorflow
done()
import numpy as np
import gc_net
localizer = gc_net.load(sys.argv[1])
done()
image = np.random.default_rng(0).integers(0, 256, (375, 500, 3), np.uint8)
for _ in range(2):
    localizer.predict(image)
    done()
print(*(f"{later[n] - before[n]}" for n in (0, 1) for before, later in zip(clocks, clocks[1:])))
"""


def report(*, model=None, backbone="efficientnet_lite0", image_size=224, rounds=3):
    """Measure each step in processes of their own, one after the other.

    Args:
        model: Folder of a model; an untrained one is made if None.
        backbone, image_size: Of an untrained model.
        rounds: How many processes.
    """
    yield f"{conditions()}, one image in memory, medians of {rounds} processes"
    with model_folder(model, backbone, image_size) as folder:
        seconds = np.median([measure(folder) for _ in range(rounds)], axis=0)  # [2, steps]
    rows = [
        [name, f"{wall:.2f}", f"{processor:.2f}"]
        for name, wall, processor in zip(STEPS, *seconds, strict=True)
    ]
    rows.append(["together", *(f"{total:.2f}" for total in seconds.sum(axis=1))])
    yield table(["step", "seconds", "processor seconds"], rows)


def measure(folder):
    """Return the seconds and the processor seconds of each step in a new process, [2, steps]."""
    answer = subprocess.run(
        [sys.executable, "-c", _PROGRAM, os.path.abspath(folder)],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        check=True,
    )
    return np.array(answer.stdout.split(), float).reshape(2, len(STEPS))
