"""The client against servers that break off, are busy, drip, or answer without sense."""

import concurrent.futures
import contextlib
import copy
import gzip
import http.server
import json
import socket
import struct
import threading
import time

import numpy as np
import pytest

from gc_net.serving import Client, ServerError, transports
from gc_net.serving.answers import checked_outputs

IMAGE = np.zeros((2, 2, 3), np.uint8)


def sound(count):
    """The outputs of a model for so many images."""
    row = {
        "boxes": [0.1, 0.2, 0.5, 0.6],
        "coefficients": [0.3, 0.4, 0.4, 0.4],
        "outlines": [[0.1, 0.2], [0.5, 0.2], [0.5, 0.6], [0.1, 0.6]],
        "outline_kinds": "parallelogram",
        "shapes": "rectangle",
        "class_ids": [1, 0],
        "class_names": ["b", "a"],
        "class_probabilities": [0.8, 0.2],
        "confidence": 0.9,
        "object_probability": 0.8,
        "background_entropy": 0.7,
        "image_sizes": [2, 2],
    }
    return {name: [copy.deepcopy(value) for _ in range(count)] for name, value in row.items()}


@contextlib.contextmanager
def server(*answers):
    """Give the answers in turn, the last one again and again; yield the address and what was sent.

    An answer is a function of a handler and of the number of images.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        counts = []  # noqa: RUF012, a list of its own for each server

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            count = len(body["inputs"]["image_bytes"])
            self.counts.append(count)
            answers[min(len(self.counts), len(answers)) - 1](self, count)

        def log_message(self, *_):
            pass

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    thread = threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_address[1]}", Handler.counts
    finally:
        listening.shutdown()
        listening.server_close()


def say(status, data, length=None):
    def answer(handler, count):
        content = data(count) if callable(data) else data
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content) + (length or 0)))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def reset(handler, count):
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()


def drip(handler, count):
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(300):
            handler.wfile.write(b" ")
            time.sleep(0.1)


class Endless:
    """An answer that never ends; `sent` counts the bytes that were taken, `broken` says the end."""

    def __init__(self, status=200, chunked=False, pause=0.0):
        self.status, self.chunked, self.pause = status, chunked, pause
        self.sent, self.broken = 0, threading.Event()

    def __call__(self, handler, count):
        handler.protocol_version = "HTTP/1.1"
        handler.close_connection = True
        handler.send_response(self.status)
        if self.chunked:
            handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        part = b" " * 2**18
        try:
            while True:
                handler.wfile.write(b"40000\r\n" + part + b"\r\n" if self.chunked else part)
                self.sent += len(part)
                time.sleep(self.pause)
        except OSError:
            self.broken.set()


def packed(handler, count):
    handler.send_response(200)
    handler.send_header("Content-Encoding", "gzip")
    handler.end_headers()
    handler.wfile.write(gzip.compress(b" " * 10**7))


WELL = say(200, lambda count: {"outputs": sound(count)})
BUSY = say(503, {"error": "busy"})


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(transports, "_FIRST_PAUSE", 0.01)


def changed(**values):
    def make(count):
        outputs = sound(count)
        for name, value in values.items():
            if value is None:
                del outputs[name]
            else:
                outputs[name] = value
        return {"outputs": outputs}

    return say(200, make)


@pytest.mark.parametrize("failure", [BUSY, reset, say(502, b"<html>"), say(200, b"{", length=10)])
def test_a_request_is_sent_again_where_that_may_help(failure):
    with server(failure, failure, WELL) as (address, counts), Client(address, "m") as client:
        (prediction,) = client.predict([IMAGE])
    assert prediction.class_name == "b"
    assert counts == [1, 1, 1]


SENSELESS = {
    "truncated JSON": (say(200, b'{"outputs": {"boxes": [[0.1'), "no JSON"),
    "HTML": (say(200, b"<html>Welcome</html>"), "no JSON.*Welcome"),
    "nested JSON": (say(200, b"[" * 100_000), "no JSON"),
    "a list": (say(200, []), "lacks outputs"),
    "no outputs": (say(200, {"x": 1}), "lacks outputs"),
    "outputs that are a list": (say(200, {"outputs": [1]}), "type list"),
    "a missing key": (changed(boxes=None), "lacks boxes"),
    "too few rows": (changed(boxes=[[0, 0, 1, 1]]), "1 rows of boxes for 2"),
    "too many rows": (say(200, lambda count: {"outputs": sound(count + 1)}), "3 rows of .* for 2"),
    "ragged rows": (changed(boxes=[[0, 0, 1, 1], [0, 0]]), "different lengths in boxes"),
    "NaN boxes": (changed(boxes=[[0, 0, 1, float("nan")]] * 2), "boxes that are no finite"),
    "null boxes": (changed(boxes=[[0, 0, 1, None]] * 2), "boxes that are no finite"),
    "boxes of three": (changed(boxes=[[0, 0, 1]] * 2), r"boxes of shape \[3\] .* \[4\]"),
    "boxes that are text": (changed(boxes=[["a"] * 4] * 2), "boxes that are no finite"),
    "a number": (changed(boxes=3), "no rows of boxes"),
    "names that are numbers": (changed(class_names=[[1, 2]] * 2), "class_names that are no text"),
    "more names than classes": (changed(class_names=[["a"]] * 2), "different numbers"),
    "sizes of zero": (changed(image_sizes=[[0, 2]] * 2), "image_sizes below 1"),
    "a name as long as a book": (changed(class_names=[["a" * 10**6, *"b" * 99]] * 2),
                                 "200 values of up to 1,000,000 characters in class_names"),
    "a packed answer": (packed, "packed as 'gzip'"),
    "404": (say(404, {"error": "no such model"}), "404: no such model"),
    "500": (say(500, b"oops"), "500: oops"),
    "a redirection": (say(302, b""), "302"),
}  # fmt: skip


@pytest.mark.parametrize("kind", SENSELESS)
def test_an_answer_without_sense_is_a_server_error_that_names_it(kind):
    answer, message = SENSELESS[kind]
    with (
        server(answer) as (address, counts),
        Client(address, "m", timeout=20) as client,
        pytest.raises(ServerError, match=message),
    ):
        client.predict([IMAGE, IMAGE])
    assert counts == [2]  # there is no use in asking again


def test_what_earlier_batches_gave_comes_with_the_error():
    with (
        server(WELL, WELL, say(500, b"")) as (address, _),
        Client(address, "m") as client,
        pytest.raises(ServerError) as caught,
    ):
        client.predict([IMAGE] * 6, batch_size=2)
    found = caught.value.predictions
    assert [prediction is None for prediction in found] == [False] * 4 + [True] * 2


def test_a_server_that_drips_is_given_up_after_the_time_that_was_given():
    with server(drip) as (address, counts), Client(address, "m", timeout=1, retries=1) as client:
        start = time.monotonic()
        with pytest.raises(ServerError, match=r"within 1\.0 s.*asked 2 times"):
            client.predict([IMAGE])
        assert time.monotonic() - start < 10
    assert counts == [1, 1]


@pytest.mark.parametrize("kind", [{}, {"chunked": True}, {"status": 400}, {"status": 503}], ids=str)
def test_an_answer_without_end_is_given_up_after_the_bytes_that_a_sound_one_needs(kind):
    endless = Endless(**kind)
    most = transports.most_bytes(1)
    with server(endless) as (address, counts), Client(address, "m", timeout=60) as client:
        with pytest.raises(ServerError, match=f"more than {most:,} bytes"):
            client.predict([IMAGE])
        assert endless.broken.wait(30)
    assert endless.sent < most + 2**24  # with what the kernel holds of it
    assert counts == [1]


def test_nothing_is_read_of_an_answer_that_was_given_up(monkeypatch):
    monkeypatch.setattr(transports, "_MOST_BYTES_AN_IMAGE", 2**40)
    endless = Endless(pause=0.01)
    with (
        server(endless) as (address, _),
        Client(address, "m", timeout=0.3, retries=0) as client,
    ):
        with pytest.raises(ServerError, match=r"within 0\.3 s"):
            client.predict([IMAGE])
        assert endless.broken.wait(30)


def test_as_many_classes_as_there_may_be_make_a_sound_answer():
    outputs = sound(1)
    outputs["class_ids"] = [list(range(20_000))]
    outputs["class_names"] = [[f"{number:0100d}" for number in range(20_000)]]
    outputs["class_probabilities"] = [[1 / 30_001] * 20_000]
    with (
        server(say(200, {"outputs": outputs})) as (address, _),
        Client(address, "m") as client,
    ):
        (prediction,) = client.predict([IMAGE])
    assert prediction.class_name == f"{0:0100d}"


def test_the_deadline_holds_for_the_whole_call():
    with server(BUSY) as (address, _), Client(address, "m", retries=10**6) as client:
        start = time.monotonic()
        with pytest.raises(ServerError, match="deadline"):
            client.predict([IMAGE] * 3, batch_size=1, deadline=1)
        assert time.monotonic() - start < 10
        assert client.transport.deadline is not None


def test_outputs_of_grpc_are_looked_over_in_the_same_way(monkeypatch):
    client = Client("127.0.0.1:9", "m", retries=0)
    outputs = {name: np.array(value) for name, value in sound(1).items()}
    monkeypatch.setattr(client.transport, "ask", lambda files, seconds: outputs)
    assert client.predict([IMAGE])[0].class_name == "b"
    outputs["boxes"] = outputs["boxes"] * np.nan
    with pytest.raises(ServerError, match="boxes that are no finite"):
        client.predict([IMAGE])


@pytest.mark.parametrize(
    "code, attempts", [("UNAVAILABLE", 3), ("DEADLINE_EXCEEDED", 3), ("INTERNAL", 1)]
)
def test_grpc_is_asked_again_where_that_may_help(code, attempts, monkeypatch):
    grpc = pytest.importorskip("grpc")

    class Failure(grpc.RpcError):
        def code(self):
            return getattr(grpc.StatusCode, code)

        def details(self):
            return "no"

    calls = []

    def fail(request, timeout):
        calls.append(timeout)
        raise Failure

    client = Client("127.0.0.1:9", "m", timeout=7, retries=2)
    monkeypatch.setattr(client.transport._stub, "Predict", fail)
    with pytest.raises(ServerError, match=code):
        client.predict([IMAGE])
    assert calls == [7] * attempts


@pytest.mark.parametrize("sides", [[10**6, 10**6], [-5], [2**62, 2**62]])
def test_a_tensor_of_grpc_that_claims_to_be_huge_takes_no_memory(sides, monkeypatch):
    pytest.importorskip("grpc")
    from tensorflow_serving.apis import predict_pb2

    def answer(request, timeout):
        found = predict_pb2.PredictResponse()
        tensor = found.outputs["boxes"]
        tensor.dtype = 1  # float32
        tensor.float_val.append(0.5)
        for side in sides:
            tensor.tensor_shape.dim.add().size = side
        return found

    client = Client("127.0.0.1:9", "m", retries=0)
    monkeypatch.setattr(client.transport._stub, "Predict", answer)
    with pytest.raises(ServerError, match=r"a damaged tensor: boxes has .* values by its shape"):
        client.predict([IMAGE])


def test_outputs_of_grpc_that_are_huge_together_take_no_memory(monkeypatch):
    pytest.importorskip("grpc")
    from tensorflow_serving.apis import predict_pb2

    def answer(request, timeout):
        found = predict_pb2.PredictResponse()
        for number in range(1000):
            tensor = found.outputs[f"{number}"]
            tensor.dtype = 1  # float32
            tensor.float_val.append(0.5)
            tensor.tensor_shape.dim.add().size = 9 * 10**6
        return found

    client = Client("127.0.0.1:9", "m", retries=0)
    monkeypatch.setattr(client.transport._stub, "Predict", answer)
    with pytest.raises(ServerError, match=r"a damaged tensor: .* values by its shape"):
        client.predict([IMAGE])


@pytest.mark.parametrize(
    "megabytes, message", [(1, "larger than max"), (256, r"more than 5,242,880 bytes")]
)
def test_an_answer_of_grpc_is_bounded_by_bytes(megabytes, message):
    grpc = pytest.importorskip("grpc")
    from tensorflow_serving.apis import predict_pb2

    found = predict_pb2.PredictResponse()
    found.outputs["boxes"].tensor_content = bytes(6 * 10**6)
    asked = []

    class Handler(grpc.GenericRpcHandler):
        def service(self, details):
            asked.append(details.method)
            return grpc.unary_unary_rpc_method_handler(lambda *_: found.SerializeToString())

    listening = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    listening.add_generic_rpc_handlers((Handler(),))
    address = f"127.0.0.1:{listening.add_insecure_port('127.0.0.1:0')}"
    listening.start()
    transport = transports.Grpc(address, "m", max_megabytes=megabytes)
    try:
        with pytest.raises(ServerError, match=message):
            transport.predict([b"image"])
        assert len(asked) == 1
    finally:
        transport.close()
        listening.stop(None)


def test_sound_outputs_pass():
    assert set(checked_outputs(sound(2), 2)) == set(sound(2))
