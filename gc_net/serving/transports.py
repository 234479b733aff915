"""The two interfaces of TF Serving: REST, which needs no TensorFlow, and gRPC, which is faster."""

import abc
import base64
import json
import math
import random
import threading
import time

import numpy as np

from gc_net.registry import Registry
from gc_net.serving.answers import checked_outputs

SIGNATURE = "serve_bytes"
INPUT = "image_bytes"
# Bad, and too large, from proxies and the demo's server: smaller requests may succeed.
_REFUSED = (400, 413)
_BUSY = (429, 502, 503, 504)
_MOST_VALUES = 10_000_000  # of all outputs together; a thousand an image are usual
# All of 20,000 classes, with names of a hundred bytes, take 2.6 MB of JSON an image.
_MOST_BYTES_AN_IMAGE = 2**22
_MOST_BYTES_BESIDE = 2**20  # for text that does not depend on images, or the page of a proxy
_READ_AT_ONCE = 2**16
_OUR_LIMIT = "CLIENT: Received message larger"  # gRPC's words; the server's begin otherwise
_FIRST_PAUSE = 0.25  # seconds before the second attempt; doubled before each further one


class ServerError(RuntimeError):
    """The server cannot be reached, does not serve this model, or gave a meaningless answer.

    Attributes:
        predictions: The predictions of `Client.predict` until then; None for the other images.
    """

    predictions: tuple = ()


class Unavailable(ServerError):
    """The server did not answer this time; asking again is safe and may help."""


class BadRequest(ValueError):
    """The server refused the request: it is too large, or one of its images is bad."""


class Transport(abc.ABC):
    """Sends image files to a model.

    Args:
        address: Where the server listens.
        model: Name of the model.
        version: Number of its version; the newest if None.
        timeout: Seconds for one attempt to get a whole answer.
        retries: How often to ask again if the server does not answer.

    Attributes:
        deadline: Time of `time.monotonic` after which no request is sent, if any.
    """

    def __init__(self, address, model, version=None, timeout=60.0, retries=3):
        self.address = address
        self.model = model
        self.version = version
        self.timeout = timeout
        self.retries = retries
        self.deadline = None

    def predict(self, files):
        """Return the outputs for a list of image files as bytes: {name: array of that length}.

        Raises:
            BadRequest: The server refused the request because of its content.
            ServerError: Further requests are useless.
        """
        for attempt in range(self.retries + 1):
            try:
                outputs = self.ask(files, self._seconds_left(self.timeout))
                break
            except Unavailable as error:
                if attempt == self.retries:
                    raise ServerError(f"{error} (asked {attempt + 1} times)") from error
                # Random, so that clients of a restarted server do not all ask at the same moment.
                pause = _FIRST_PAUSE * 2**attempt * random.uniform(0.5, 1.5)
                if self._seconds_left(pause, error) < pause:
                    raise ServerError(f"{error} (the deadline of the call is near)") from error
                time.sleep(pause)
        try:
            return checked_outputs(outputs, len(files))
        except ValueError as error:
            raise ServerError(f"The answer of {self.address} {error}.") from error

    def _seconds_left(self, most, error=None):
        if self.deadline is None:
            return most
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise ServerError(f"The deadline of the call is over. {error or ''}".strip())
        return min(most, left)

    @abc.abstractmethod
    def ask(self, files, seconds):
        """Ask once, and return the server's outputs by name within so many seconds.

        Raises:
            BadRequest: The server refused the request because of its content.
            Unavailable: It did not answer, or it is busy.
            ServerError: Further requests are useless.
        """

    @abc.abstractmethod
    def close(self):
        """Close the connection."""


class Rest(Transport):
    """TF Serving's REST interface, port 8501; `address` is like `"http://localhost:8501"`."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        import requests
        import urllib3

        self._requests, self._broken_off = requests, urllib3.exceptions.HTTPError
        self._session = requests.Session()
        version = "" if self.version is None else f"/versions/{self.version}"
        self._url = f"{self.address.rstrip('/')}/v1/models/{self.model}{version}:predict"

    def ask(self, files, seconds):
        content = {
            "signature_name": SIGNATURE,
            "inputs": {INPUT: [{"b64": base64.b64encode(file).decode()} for file in files]},
        }
        status, data = self._post(content, seconds, most_bytes(len(files)))
        text = data.decode("utf-8", "replace")
        message = f"{self._url} answered {status}: {_message(text)}"
        if status in _REFUSED:
            raise BadRequest(_message(text))
        if status in _BUSY:
            raise Unavailable(message)
        if status != 200:
            raise ServerError(message)
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ServerError(
                f"{self._url} answered with no JSON, or half of it ({error}): {text[:200]!r}"
            ) from None
        if not isinstance(found, dict) or "outputs" not in found:
            raise ServerError(f"The answer of {self._url} lacks outputs: {text[:200]!r}")
        return found["outputs"]

    def _post(self, content, seconds, most):
        """Return the status and the bytes of the answer, at most `most` of them.

        It runs in a thread, because the time-out of `requests` begins again with every byte.
        """
        session, given_up, result = self._session, threading.Event(), {}

        def post():
            try:
                with session.post(
                    self._url,
                    json=content,
                    headers={"Accept-Encoding": "identity"},
                    timeout=seconds,
                    allow_redirects=False,
                    stream=True,
                ) as answer:
                    result["answer"] = answer.status_code, self._body(answer, most, given_up)
            except Exception as error:
                result["error"] = error

        thread = threading.Thread(target=post, daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            # Its connection must not be used again; the rest of the answer is lost.
            given_up.set()
            self._session = self._requests.Session()
            session.close()
            raise Unavailable(f"No whole answer from {self._url} within {seconds:.1f} s.")
        error = result.get("error")
        if isinstance(error, ServerError):
            raise error
        if isinstance(error, self._requests.exceptions.InvalidURL | ValueError):
            raise ServerError(f"{self._url} cannot be asked: {error}") from error
        if isinstance(error, self._requests.RequestException | self._broken_off):
            raise Unavailable(f"No answer from {self._url}: {error}") from error
        if error is not None:
            raise ServerError(f"{self._url} cannot be asked: {error}") from error
        return result["answer"]

    def _body(self, answer, most, given_up):
        """Read an answer to its end, unless it is too long."""
        # A packed answer can take far more memory than its bytes, and was not requested.
        packing = answer.headers.get("Content-Encoding", "identity")
        if packing.strip().lower() != "identity":
            raise ServerError(
                f"{self._url} answered packed as {packing[:50]!r}; expected plain JSON. "
                "Let the server, or the proxy before it, heed Accept-Encoding: identity."
            )
        data = bytearray()
        while not given_up.is_set():
            part = answer.raw.read(_READ_AT_ONCE, decode_content=False)
            if not part:
                break
            data += part
            _check_bytes(self._url, len(data), most)
        return bytes(data)

    def close(self):
        self._session.close()


class Grpc(Transport):
    """TF Serving's gRPC interface, port 8500; `address` is like `"localhost:8500"`."""

    def __init__(self, *args, max_megabytes=256, **kwargs):
        super().__init__(*args, **kwargs)
        try:
            import grpc
            from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
        except ImportError as error:
            raise ImportError(
                f"gRPC needs the package tensorflow-serving-api ({error}): "
                "pip install '.[serving]' in the checkout. REST needs none: address='http://...'."
            ) from error
        self._grpc, self._messages = grpc, predict_pb2
        size = max_megabytes * 2**20
        self._channel = grpc.insecure_channel(
            self.address,
            options=[
                ("grpc.max_send_message_length", size),
                ("grpc.max_receive_message_length", size),
            ],
        )
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)

    def ask(self, files, seconds):
        import tensorflow as tf

        request = self._messages.PredictRequest()
        request.model_spec.name = self.model
        request.model_spec.signature_name = SIGNATURE
        if self.version is not None:
            request.model_spec.version.value = self.version
        request.inputs[INPUT].CopyFrom(tf.make_tensor_proto(files, tf.string, [len(files)]))
        try:
            answer = self._stub.Predict(request, timeout=seconds)
        except self._grpc.RpcError as error:
            codes = self._grpc.StatusCode
            message = f"{self.address} answered {error.code().name}: {error.details()}"
            # Resources: the request exceeds the server's limit, or the answer exceeds ours.
            if _OUR_LIMIT in (error.details() or ""):
                raise ServerError(message) from error
            if error.code() in (codes.INVALID_ARGUMENT, codes.RESOURCE_EXHAUSTED):
                raise BadRequest(error.details()) from error
            if error.code() in (codes.UNAVAILABLE, codes.DEADLINE_EXCEEDED, codes.ABORTED):
                raise Unavailable(message) from error
            raise ServerError(message) from error
        _check_bytes(self.address, answer.ByteSize(), most_bytes(len(files)))
        try:
            _check_counts(answer.outputs)
            return {name: _values(tf.make_ndarray(value)) for name, value in answer.outputs.items()}
        except (ValueError, TypeError) as error:
            raise ServerError(f"{self.address} answered with a damaged tensor: {error}") from error

    def close(self):
        self._channel.close()


TRANSPORTS = Registry("transport", {"rest": Rest, "grpc": Grpc})


def transport_of(address):
    """Return the name of the transport for an address."""
    return "rest" if address.startswith(("http://", "https://")) else "grpc"


def most_bytes(count: int) -> int:
    """Return the largest number of bytes of an answer for `count` images."""
    return _MOST_BYTES_BESIDE + count * _MOST_BYTES_AN_IMAGE


def _check_bytes(address, size, most):
    if size > most:
        raise ServerError(
            f"{address} answered with more than {most:,} bytes, which no sound answer needs."
        )


def _check_counts(tensors):
    # A single value may stand for a whole tensor of any shape.
    total = 0
    for name, tensor in tensors.items():
        count = math.prod(side.size for side in tensor.tensor_shape.dim)
        total += count
        if count < 0 or total > _MOST_VALUES:
            raise ValueError(f"{name} has {count:,} values by its shape")


def _values(array):
    """Return an array of numbers unchanged, and an array of bytes as nested lists of text."""
    if array.dtype != object:
        return array
    texts = np.empty(array.size, object)
    texts[:] = [text.decode("utf-8") for text in array.ravel()]
    return texts.reshape(array.shape).tolist()


def _message(text):
    try:
        return str(json.loads(text)["error"])[:500]
    except (ValueError, KeyError, TypeError, RecursionError):
        return text[:500]
