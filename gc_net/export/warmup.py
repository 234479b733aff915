"""Warm-up requests, which TF Serving runs before it serves a new version.

They are a TFRecord file of `PredictionLog` messages. Their schema is in the package
tensorflow-serving-api. The four nested messages are written here field by field, in protobuf's wire
format, so that exporting needs only TensorFlow.
"""

import os

import cv2
import numpy as np
import tensorflow as tf

WARMUP_FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")
_HEIGHT, _WIDTH = 48, 64  # any size works, because images are resized; this makes a small file


def warmup_requests():
    """Return one request for each signature: {signature: {input: array}}."""
    images = np.full((1, _HEIGHT, _WIDTH, 3), 127, np.uint8)
    jpeg = cv2.imencode(".jpg", images[0])[1].tobytes()
    return {
        "serving_default": {"images": images.astype(np.float32)},
        "serve_uint8": {"images": images},
        "serve_bytes": {"image_bytes": np.array([jpeg], object)},
    }


def write_warmup(folder, model_name, requests):
    """Write requests into the SavedModel in `folder`."""
    path = os.path.join(folder, WARMUP_FILE)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tf.io.TFRecordWriter(path) as writer:
        for signature, inputs in requests.items():
            writer.write(prediction_log(model_name, signature, inputs))


def prediction_log(model_name, signature, inputs):
    """Return a serialized `PredictionLog` that holds one predict request."""
    # ModelSpec: name = 1, signature_name = 3. PredictRequest: model_spec = 1, inputs = 2, a map,
    # whose entries are messages of key = 1 and value = 2. PredictLog: request = 1.
    # PredictionLog: predict_log = 6.
    request = _field(1, _field(1, model_name.encode()) + _field(3, signature.encode()))
    for name, value in inputs.items():
        tensor = tf.make_tensor_proto(value).SerializeToString()
        request += _field(2, _field(1, name.encode()) + _field(2, tensor))
    return _field(6, _field(1, request))


def _field(number, content):
    """Return a length-delimited field, wire type 2."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value):
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
