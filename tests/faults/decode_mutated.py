r"""Send mutated images through every way an image can come in, and say what became of them.

python -m tests.faults.decode_mutated --seed=0 --first=0 --count=10000

One line of JSON. Ends the process where an image, or `predict`'s batch, takes more than `--seconds`
of the processor, or thirty times as long by the clock: on a machine that is busy with other work, a
sound decoder may take minutes by the clock. What is under way is always in the file given by
`--trace`, so that a crash has a name.
"""

import argparse
import base64
import collections
import faulthandler
import json
import os
import signal
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
import werkzeug.test

from gc_net.data.decode import decode_with_size, read_size
from gc_net.data.loading import Unreadable
from gc_net.data.splits import ImageError
from gc_net.data.transforms import squash
from gc_net.export.signatures import ServingModule
from gc_net.serving.demo import DemoApp
from gc_net.serving.rest import RestModel
from tests.faults import memory
from tests.faults.mutator import FILES, mutated
from tests.models import localizer_of
from tests.prediction.models import CLASS_NAMES, varied_model

MAX_PIXELS = 50_000_000  # the demo's default
BATCH = 16


class Ways:
    """The ways in: each is a method that returns whether the image was decoded.

    A result must be whole and finite, and a refusal must be the one that is documented; anything
    else is raised. `predict` takes several at once, as it always does, and must refuse as many
    as `dataset`, which has the same decoder.
    """

    names = ("dataset", "serving", "demo")

    def __init__(self, scratch):
        self.scratch = scratch
        self.localizer = localizer_of(varied_model(), CLASS_NAMES)
        module = ServingModule(self.localizer)
        self.serve_bytes = module.signatures()["serve_bytes"]
        app = DemoApp("m", RestModel(module, MAX_PIXELS), max_bytes=2**25)
        self.client = werkzeug.test.Client(app)

    def dataset(self, data):
        with open(self.scratch, "wb") as file:
            file.write(data)
        try:
            size_by_header = read_size(self.scratch)
            image, size = decode_with_size(data, target=32)
        except ImageError:
            return False
        assert size == size_by_header and image.dtype == np.uint8 and image.ndim == 3
        assert squash(image, 32).shape == (32, 32, 3)
        return True

    def predict(self, files):
        unreadable = Unreadable()
        predictions = self.localizer.predict(files, BATCH, unreadable=unreadable)
        decoded = [prediction for prediction in predictions if prediction is not None]
        assert len(decoded) + len(unreadable) == len(files)
        for prediction in decoded:
            assert np.isfinite(prediction.box_xyxy).all() and np.isfinite(prediction.confidence)
        return len(decoded)

    def serving(self, data):
        try:
            outputs = self.serve_bytes(tf.constant([data]))
        except tf.errors.InvalidArgumentError:
            return False
        assert np.isfinite(outputs["boxes"].numpy()).all()
        assert np.isfinite(outputs["class_probabilities"].numpy()).all()
        return True

    def demo(self, data):
        body = {
            "signature_name": "serve_bytes",
            "inputs": [{"b64": base64.b64encode(data).decode()}],
        }
        answer = self.client.post("/v1/models/m:predict", json=body)
        assert answer.status_code in (200, 400, 413), answer.text
        if answer.status_code != 200:
            assert answer.json["error"].startswith("Image 0: "), answer.text
            assert "Graph execution" not in answer.text
            return False
        assert np.isfinite(answer.json["outputs"]["boxes"]).all()
        return True


class Watch:
    """Runs one thing at a time, and keeps what it took.

    Attributes:
        slowest, largest: By way, the longest time of the processor in seconds, of all threads, and
            the most memory in kB.
        failures: What raised, as text.
    """

    def __init__(self, seconds, trace):
        self.seconds, self.trace = seconds, trace
        # Says where it was, and goes on to what the signal does by itself: it ends the process.
        faulthandler.register(signal.SIGPROF, all_threads=True, chain=True)
        self.slowest, self.largest = collections.Counter(), collections.Counter()
        self.failures = []

    def call(self, way, what, function, data):
        """Return the result, or None where it raised."""
        with open(self.trace, "w", encoding="utf-8") as log:
            log.write(f"{way}: {what}")
        faulthandler.dump_traceback_later(30 * self.seconds, exit=True)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)
        before = memory.restart_peak()
        start = time.process_time()
        result = None
        try:
            result = function(data)
        except Exception as error:
            self.failures.append(f"{way}: {what}: {error!r:.300}")
        self.slowest[way] = max(self.slowest[way], time.process_time() - start)
        self.largest[way] = max(self.largest[way], memory.peak() - before)
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
        return result


def run(seed, first, count, seconds, trace, scratch):
    """Return a dict of what was found, by way."""
    ways = Ways(scratch)
    counts = {name: collections.Counter() for name in (*ways.names, "predict")}
    whole = FILES["PNG"]  # what is only made once is no image's doing
    for name in ways.names:
        getattr(ways, name)(whole)
    ways.predict([whole] * BATCH)
    watch = Watch(seconds, trace)
    for start in range(first, first + count, BATCH):
        files = []
        for number in range(start, min(start + BATCH, first + count)):
            original, kinds, data = mutated(seed, number)
            files.append(data)
            for name in ways.names:
                what = f"{number} {original} {kinds}"
                decoded = watch.call(name, what, getattr(ways, name), data)
                if decoded is not None:
                    counts[name]["decoded" if decoded else "rejected"] += 1
        decoded = watch.call("predict", f"{start} and {BATCH - 1} more", ways.predict, files)
        if decoded is not None:
            counts["predict"].update(decoded=decoded, rejected=len(files) - decoded)
    return {
        "counts": {name: dict(count) for name, count in counts.items()},
        "slowest_seconds": {name: round(value, 2) for name, value in watch.slowest.items()},
        "largest_megabytes": {name: round(kb / 1024) for name, kb in watch.largest.items()},
        "failures": watch.failures,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--trace", default=os.devnull)
    parser.add_argument("--scratch", default="mutated.bin")
    print(json.dumps(run(**vars(parser.parse_args()))))
