"""A mixed flood: every whole request is answered rightly, and the memory stays bounded."""

import collections
import concurrent.futures
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest

from gc_net.export.saved_model import export_saved_model
from tests.faults import amount, flood, memory
from tests.models import localizer_of
from tests.prediction.models import CLASS_NAMES, varied_model
from tests.training.samples import ROOT

SEED = 20
NUM_REQUESTS = amount(150, 10_000)
THREADS = 8
# Of the largest images that are let in, as they are in the graph, and what is kept of them.
MOST_MEGABYTES = 1_500
# What the second half of the flood may add to the memory that the first one has left in use.
MOST_GROWTH = 150


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    localizer_of(varied_model(), CLASS_NAMES).save(folder)
    return folder


@pytest.fixture
def server(model_dir, tmp_path):
    """The demo's server in a process of its own: its address, its process, and what it says."""
    command = [sys.executable, "-m", "tools.serve", f"--model={model_dir}", "--name=m"]
    command += ["--port=0", "--max_megabytes=1", "--max_megapixels=20"]
    with open(tmp_path / "errors", "w") as errors:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        line = process.stdout.readline()
        port = int(re.match(r"http://127\.0\.0\.1:(\d+)", line)[1])
        yield ("127.0.0.1", port), process, tmp_path / "errors"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_demo_answers_every_request_of_a_flood_in_bounded_memory(server):
    address, process, errors = server
    expected = {
        file: json.loads(answer(address, file)[2])["outputs"]["boxes"][0]
        for file in flood.PHOTOS.values()
    }
    counts, failures, lock = collections.Counter(), [], threading.Lock()

    def ask(number):
        request = flood.request(SEED, number)
        try:
            found = flood.send(address, request)
            fault = check(request, found, expected)
            status = found and found[0]
        except Exception as error:
            status, fault = "lost", repr(error)
        with lock:
            counts[request.kind, status] += 1
            if fault:
                failures.append(f"{number} {request.kind}: {fault:.300}")

    in_use = [memory.status("VmRSS", process.pid)]
    with (
        silent_connections(address, 40),
        concurrent.futures.ThreadPoolExecutor(THREADS) as pool,
    ):
        half = NUM_REQUESTS // 2
        for numbers in (range(half), range(half, NUM_REQUESTS)):
            list(pool.map(ask, numbers))
            in_use.append(memory.status("VmRSS", process.pid))
    peak = memory.status("VmHWM", process.pid)
    report = {
        f"{kind}: {status}": count for (kind, status), count in sorted(counts.items(), key=str)
    }
    megabytes = [round((kb - in_use[0]) / 1024) for kb in (peak, *in_use[1:])]
    print(f"\n{json.dumps(report, indent=1)}\nMB, peak and after each half: {megabytes}")
    assert not failures, failures[:20]
    assert sum(counts.values()) == NUM_REQUESTS
    assert process.poll() is None, errors.read_text()[-2000:]
    assert megabytes[0] < MOST_MEGABYTES
    if NUM_REQUESTS >= 10_000:
        assert megabytes[2] - megabytes[1] < MOST_GROWTH
    assert "Traceback" not in errors.read_text()


def test_an_exported_model_answers_the_same_flood_in_bounded_memory(model_dir, tmp_path):
    version, _ = export_saved_model(model_dir, tmp_path / "exported")
    command = [sys.executable, "-m", "tests.faults.flood_exported", f"--model={version}"]
    command += [f"--seed={SEED}", f"--count={NUM_REQUESTS}"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"\n{json.dumps(found, indent=1)}")
    assert not found["failures"]
    assert min(found["counts"]["answered"], found["counts"]["refused"]) > NUM_REQUESTS / 10
    # Four requests at a time, each of which decodes two images at once.
    assert found["peak_megabytes"] < 4 * MOST_MEGABYTES
    if NUM_REQUESTS >= 10_000:
        first, second = found["in_use_megabytes"]
        assert second - first < MOST_GROWTH


def answer(address, *files):
    return flood.send(address, flood.of_images(files, (200,)))


@contextlib.contextmanager
def silent_connections(address, count):
    """Hold connections open that say the beginning of a request and no more."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection(address))
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"POST / HTTP/1.1\r\nHost: local")
        yield


def check(request, found, expected):
    """Return what is wrong with an answer, or None."""
    if not request.statuses:
        return None
    status, headers, body = found
    if status not in request.statuses:
        return f"{status} in place of {request.statuses}: {body[:200]!r}"
    if b"Graph execution" in body:
        return "a graph's error is shown"
    if status != 200:
        error = json.loads(body)
        if status == 405 and "Allow" not in headers:
            return "405 without Allow"
        return None if list(error) == ["error"] and error["error"] else f"an error {error}"
    if not request.files:
        return None
    content = json.loads(body)
    boxes = content["outputs"]["boxes"] if "outputs" in content else None
    boxes = boxes or [row["boxes"] for row in content["predictions"]]
    if len(boxes) != len(request.files) or not np.isfinite(boxes).all():
        return f"boxes {boxes}"
    for file, box in zip(request.files, boxes, strict=True):
        if file in expected and not np.allclose(box, expected[file], atol=1e-4):
            return f"the box {box} of another image in place of {expected[file]}"
    return None
