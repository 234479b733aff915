"""Servers that answer as TF Serving does, on its own protocol: gRPC by the official stubs, REST.

Also `running`, which serves the demo's application.
"""

import base64
import concurrent.futures
import contextlib
import http.server
import json
import threading

import grpc
import tensorflow as tf
import werkzeug.serving
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


class _Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, name, model):
        self.name = name
        self.model = model
        self.batches = []

    def Predict(self, request, context):
        if request.model_spec.name != self.name:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no model {request.model_spec.name}")
        inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
        self.batches.append(len(next(iter(inputs.values()))))
        signature = self.model.signatures[request.model_spec.signature_name]
        try:
            outputs = signature(**{key: tf.constant(value) for key, value in inputs.items()})
        except tf.errors.InvalidArgumentError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.message)
        answer = predict_pb2.PredictResponse()
        for key, value in outputs.items():
            answer.outputs[key].CopyFrom(tf.make_tensor_proto(value.numpy()))
        return answer


@contextlib.contextmanager
def grpc_server(name, model):
    """Serve a loaded SavedModel; yield the address, and an object that counts `batches`."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    service = _Service(name, model)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}", service
    finally:
        server.stop(None)


@contextlib.contextmanager
def rest_server(name, model):
    """Serve a loaded SavedModel; yield the address, and an object that counts `batches`.

    Its `max_bytes` are those of the largest request that is answered; there is no limit if None.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        batches = []  # noqa: RUF012, a list of its own for each server
        max_bytes = None

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.max_bytes is not None and len(body) > self.max_bytes:
                return self.answer(413, {"error": "too large"})
            body = json.loads(body)
            if self.path != f"/v1/models/{name}:predict":
                return self.answer(404, {"error": f"no model at {self.path}"})
            files = [base64.b64decode(item["b64"]) for item in body["inputs"]["image_bytes"]]
            self.batches.append(len(files))
            try:
                outputs = model.signatures[body["signature_name"]](tf.constant(files))
            except tf.errors.InvalidArgumentError as error:
                return self.answer(400, {"error": error.message})
            values = {key: value.numpy().tolist() for key, value in outputs.items()}
            return self.answer(200, {"outputs": _as_text(values)})

        def answer(self, status, content):
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", Handler
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def running(app):
    """Serve a WSGI application; yield the address."""
    server = werkzeug.serving.make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _as_text(value):
    if isinstance(value, dict):
        return {key: _as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value
