"""The two ways to ask TF Serving: REST, which needs no TensorFlow, and gRPC, which is faster."""

import abc
import base64
import json

import numpy as np

from gc_net.registry import Registry

SIGNATURE = "serve_bytes"
INPUT = "image_bytes"
# Bad, and too large, as proxies and the demo's server answer: smaller requests may be answered.
_REFUSED = (400, 413)


class ServerError(RuntimeError):
    """The server cannot be reached, or does not serve this model."""


class BadRequest(ValueError):
    """The server could not make sense of the request: it is too large, or an image of it is bad."""


class Transport(abc.ABC):
    """Sends image files to a model.

    Args:
        address: Where the server listens.
        model: Name of the model.
        version: Number of its version; the newest if None.
        timeout: Seconds to wait for an answer.
    """

    def __init__(self, address, model, version=None, timeout=60.0):
        self.address = address
        self.model = model
        self.version = version
        self.timeout = timeout

    @abc.abstractmethod
    def predict(self, files):
        """Return the outputs for a list of image files as bytes: {name: array of that length}.

        Raises:
            BadRequest: The server refused the request because of its content.
            ServerError: There is no use in sending anything else.
        """

    @abc.abstractmethod
    def close(self):
        """Give back the connection."""


class Rest(Transport):
    """TF Serving's REST interface, port 8501; `address` is like `"http://localhost:8501"`."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        import requests

        self._requests = requests
        self._session = requests.Session()
        version = "" if self.version is None else f"/versions/{self.version}"
        self._url = f"{self.address.rstrip('/')}/v1/models/{self.model}{version}:predict"

    def predict(self, files):
        content = {
            "signature_name": SIGNATURE,
            "inputs": {INPUT: [{"b64": base64.b64encode(file).decode()} for file in files]},
        }
        try:
            answer = self._session.post(self._url, json=content, timeout=self.timeout)
        except self._requests.RequestException as error:
            raise ServerError(f"No answer from {self._url}: {error}") from error
        if answer.status_code in _REFUSED:
            raise BadRequest(_message(answer.text))
        if answer.status_code != 200:
            raise ServerError(f"{self._url} answered {answer.status_code}: {_message(answer.text)}")
        return {name: np.array(value) for name, value in answer.json()["outputs"].items()}

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

    def predict(self, files):
        import tensorflow as tf

        request = self._messages.PredictRequest()
        request.model_spec.name = self.model
        request.model_spec.signature_name = SIGNATURE
        if self.version is not None:
            request.model_spec.version.value = self.version
        request.inputs[INPUT].CopyFrom(tf.make_tensor_proto(files, tf.string, [len(files)]))
        try:
            answer = self._stub.Predict(request, timeout=self.timeout)
        except self._grpc.RpcError as error:
            if error.code() == self._grpc.StatusCode.INVALID_ARGUMENT:
                raise BadRequest(error.details()) from error
            raise ServerError(
                f"{self.address} answered {error.code().name}: {error.details()}"
            ) from error
        outputs = {name: tf.make_ndarray(value) for name, value in answer.outputs.items()}
        return {
            name: np.array([text.decode("utf-8") for text in value.ravel()]).reshape(value.shape)
            if value.dtype == object
            else value
            for name, value in outputs.items()
        }

    def close(self):
        self._channel.close()


TRANSPORTS = Registry("transport", {"rest": Rest, "grpc": Grpc})


def transport_of(address):
    """Return the name of the transport that an address is for."""
    return "rest" if address.startswith(("http://", "https://")) else "grpc"


def _message(text):
    try:
        return json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        return text[:500]
