r"""Send mutated images through every way an image can come in, and say what became of them.

python -m tests.faults.decode_mutated --seed=0 --first=0 --count=10000

One line of JSON. Ends the process where an image takes longer than `--seconds`; the number of the
image under way is always the last line in the file given by `--trace`, so that a crash has a name.
"""

import argparse
import base64
import collections
import faulthandler
import json
import os
import resource
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
import werkzeug.test

from gc_net.datasets.base import ImageError
from gc_net.datasets.images import decode_with_size, read_size
from gc_net.datasets.loading import Unreadable
from gc_net.datasets.transforms import squash
from gc_net.export.signatures import ServingModule
from gc_net.inference.localizer import Localizer
from gc_net.serving.demo import DemoApp
from gc_net.serving.rest import RestModel
from tests.faults.mutator import mutated
from tests.inference.models import CLASS_NAMES, varied_model

MAX_PIXELS = 50_000_000  # the demo's default


class Ways:
    """The ways in: each is a method that returns whether the image was decoded.

    A result must be whole and finite, and a refusal must be the one that is documented; anything
    else is raised.
    """

    names = ("dataset", "predict", "serving", "demo")

    def __init__(self, scratch):
        self.scratch = scratch
        self.localizer = Localizer(varied_model(), CLASS_NAMES)
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

    def predict(self, data):
        unreadable = Unreadable()
        (prediction,) = self.localizer.predict([data], unreadable=unreadable)
        if prediction is None:
            assert len(unreadable) == 1
            return False
        assert np.isfinite(prediction.box_xyxy).all() and np.isfinite(prediction.confidence)
        return True

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
        assert answer.status_code in (200, 400), answer.text
        if answer.status_code == 400:
            assert answer.json["error"]
            return False
        assert np.isfinite(answer.json["outputs"]["boxes"]).all()
        return True


def run(seed, first, count, seconds, trace, scratch):
    """Return a dict of what was found, by way."""
    ways = Ways(scratch)
    whole = mutated(seed, 0)[2]
    counts = {name: collections.Counter() for name in ways.names}
    slowest, largest = dict.fromkeys(ways.names, 0.0), dict.fromkeys(ways.names, 0)
    failures = []
    for name in ways.names:  # what is only made once is no image's doing
        getattr(ways, name)(whole)
    with open(trace, "w", encoding="utf-8") as log:
        for number in range(first, first + count):
            original, kinds, data = mutated(seed, number)
            for name in ways.names:
                log.seek(0)
                log.truncate()
                log.write(f"{number} {name} {original} {kinds}")
                log.flush()
                faulthandler.dump_traceback_later(seconds, exit=True)
                before = _restart_peak()
                start = time.perf_counter()
                try:
                    decoded = getattr(ways, name)(data)
                    counts[name]["decoded" if decoded else "rejected"] += 1
                except Exception as error:
                    failures.append(f"{number} {name} {original} {kinds}: {error!r:.300}")
                slowest[name] = max(slowest[name], time.perf_counter() - start)
                largest[name] = max(largest[name], _peak() - before)
            faulthandler.cancel_dump_traceback_later()
    return {
        "counts": {name: dict(count) for name, count in counts.items()},
        "slowest_seconds": {name: round(value, 2) for name, value in slowest.items()},
        "largest_megabytes": {name: round(value / 1024) for name, value in largest.items()},
        "failures": failures,
    }


def _restart_peak():
    """Let the kernel measure the peak memory anew; return what is in use, in kB."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _status("VmRSS")


def _peak():
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _status(field):
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(field))
    except OSError:
        return None


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--trace", default=os.devnull)
    parser.add_argument("--scratch", default="mutated.bin")
    print(json.dumps(run(**vars(parser.parse_args()))))
