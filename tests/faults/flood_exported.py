r"""Give an exported model the images of a flood, on several threads; say what became of them.

python -m tests.faults.flood_exported --model=FOLDER --seed=0 --count=10000

One line of JSON.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import threading

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from tests.faults import flood, memory

THREADS = 4


def run(model, seed, count):
    """Return a dict of what was found."""
    signature = tf.saved_model.load(model).signatures["serve_bytes"]

    def answer(files):
        outputs = signature(tf.constant(list(files)))
        return {name: outputs[name].numpy() for name in ("boxes", "class_probabilities")}

    expected = {file: answer([file])["boxes"][0] for file in flood.PHOTOS.values()}
    counts, failures, lock = collections.Counter(), [], threading.Lock()

    def ask(number):
        request = flood.request(seed, number)
        if not request.files:
            return
        what = "refused"
        try:
            found = answer(request.files)
            what = "answered"
            _check(found, request, expected)
        except tf.errors.InvalidArgumentError as error:
            if request.kind == "sound" or not error.message:
                what = f"failed: {number} {request.kind}: {error.message:.200}"
        except Exception as error:
            what = f"failed: {number} {request.kind}: {error!r:.200}"
        with lock:
            counts[what.partition(":")[0]] += 1
            if what.startswith("failed"):
                failures.append(what)

    half = count // 2
    in_use = []
    before = memory.restart_peak()
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        for numbers in (range(half), range(half, count)):
            list(pool.map(ask, numbers))
            in_use.append(memory.status("VmRSS") - before)
    return {
        "counts": dict(counts),
        "failures": failures[:20],
        "peak_megabytes": round((memory.peak() - before) / 1024),
        "in_use_megabytes": [round(kb / 1024) for kb in in_use],
    }


def _check(found, request, expected):
    if 400 in request.statuses and 200 not in request.statuses:
        raise AssertionError("was answered")
    assert all(np.isfinite(values).all() for values in found.values())
    assert len(found["boxes"]) == len(request.files)
    for file, box in zip(request.files, found["boxes"], strict=True):
        if file in expected:
            np.testing.assert_allclose(box, expected[file], atol=1e-4)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    print(json.dumps(run(**vars(parser.parse_args()))))
