"""TF Serving's REST form for a model in this process, which the demo page uses."""

import base64
import binascii
import json
import re
import threading

import numpy as np
import tensorflow as tf

from gc_net.data.headers import read_header
from gc_net.data.splits import ImageError
from gc_net.export import preprocessing

_KINDS = ("JPEG", "PNG")  # what the graph decodes
TOO_LARGE = 413
# In TensorFlow's message, the reason comes after a traceback and before the name of the operation.
_REASON = re.compile(r"([^\n]*)\n\s*\[\[\{\{node ")
_ASSERTED = re.compile(r"assertion failed: \[(.*)\]")


class RequestError(ValueError):
    """A request that cannot be answered; the message says why.

    Attributes:
        status: The HTTP status of the answer: 400, or 413 if a smaller request may succeed.
    """

    def __init__(self, message, status=400):
        super().__init__(message)
        self.status = status


class RestModel:
    """Answers the JSON of a `:predict` request.

    Args:
        module: A `gc_net.export.signatures.ServingModule`, or another object with `signatures()`.
        max_pixels: Limit of the pixels of all encoded images of a request; they are refused before
            any is decoded.
        max_images: Largest number of images of one request.
    """

    def __init__(self, module, max_pixels, max_images=32):
        self.max_pixels = max_pixels
        self.max_images = min(max_images, preprocessing.MAX_IMAGES)
        self._module = module  # its functions alone do not keep it alive
        self._functions = module.signatures()
        spec = [tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.int32)]
        self._file_size = tf.function(preprocessing.file_size, input_signature=spec)
        self._decode = tf.function(preprocessing.decode, input_signature=spec)
        # One request at a time, from its parsing to its answer. That limits the memory, and
        # TensorFlow uses all cores for each request anyway.
        self._lock = threading.Lock()

    def predict(self, body):
        """Return the JSON that answers `body`, both as bytes.

        Raises:
            RequestError: If the request or one of its images is invalid.
        """
        with self._lock:
            return self._answer(body)

    def _answer(self, body):
        try:
            content = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise RequestError(f"The request is not JSON: {error}") from None
        if not isinstance(content, dict):
            raise RequestError("Expected a JSON object with `inputs` or `instances`.")
        name = content.get("signature_name", "serving_default")
        if not isinstance(name, str) or name not in self._functions:
            raise RequestError(
                f"Unknown signature_name {name!r:.100}. Known ones: {', '.join(self._functions)}."
            )
        function = self._functions[name]
        (spec,) = function.input_signature
        by_row = "instances" in content
        if by_row == ("inputs" in content):
            raise RequestError("Expected either `inputs` or `instances`.")
        values = content["instances"] if by_row else content["inputs"]
        tensor = self._tensor(_unwrapped(values, spec.name), spec)
        try:
            outputs = function(tensor)
        except tf.errors.InvalidArgumentError as error:
            raise self._refusal(tensor, error) from None
        outputs = {key: _plain(value.numpy().tolist()) for key, value in outputs.items()}
        if by_row:
            rows = (
                dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)
            )
            answer = {"predictions": list(rows)}
        else:
            answer = {"outputs": outputs}
        return json.dumps(answer, ensure_ascii=False).encode("utf-8")

    def _tensor(self, values, spec):
        if not isinstance(values, list) or not values:
            raise RequestError(f"Expected a list of `{spec.name}` with one entry an image.")
        if len(values) > self.max_images:
            raise RequestError(
                f"{len(values):,} images in one request, the limit is {self.max_images}.", TOO_LARGE
            )
        if spec.dtype == tf.string:
            return tf.constant(self._files(values))
        try:
            array = np.array(values, np.float32)
        except (ValueError, TypeError):
            array = None
        if array is None or array.ndim != 4 or array.shape[-1] != 3 or 0 in array.shape:
            raise RequestError(
                f"Expected `{spec.name}` as numbers [batch, height, width, 3], images of one size."
            )
        if array[..., 0].size > self.max_pixels:
            raise RequestError(
                f"{array[..., 0].size:,} pixels in one request, the limit is {self.max_pixels:,}.",
                TOO_LARGE,
            )
        if not np.isfinite(array).all():
            raise RequestError(f"`{spec.name}` holds values that are not finite.")
        return tf.cast(np.clip(array, 0, 255), spec.dtype)

    def _files(self, values):
        files, pixels = [], 0
        for index, value in enumerate(values):
            data, (height, width) = self._file(index, value)
            pixels += height * width
            if pixels > self.max_pixels:
                raise RequestError(
                    f"Image {index}: {width} × {height} pixels, {pixels:,} with those before it, "
                    f"more than {self.max_pixels:,}.",
                    TOO_LARGE,
                )
            files.append(data)
        return files

    def _file(self, index, value):
        """Return one image's bytes and its (height, width)."""
        if not isinstance(value, dict) or not isinstance(value.get("b64"), str):
            raise RequestError(f'Image {index}: expected {{"b64": "..."}}, a file in base64.')
        try:
            data = base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise RequestError(f"Image {index}: not base64: {error}") from None
        try:
            kind = read_header(data).kind
        except ImageError as error:
            raise RequestError(f"Image {index}: {error}.") from None
        if kind not in _KINDS:
            raise RequestError(f"Image {index}: a {kind} image; expected JPEG or PNG.")
        try:
            # With the decoder's own library, so that both read the header in the same way.
            size = self._file_size(tf.constant(data), index).numpy().tolist()
        except tf.errors.InvalidArgumentError as error:
            raise RequestError(_reason(error.message, index)) from None
        return data, size

    def _refusal(self, tensor, error):
        """Return the `RequestError` of a batch that the graph refused, by the image at fault."""
        if tensor.dtype == tf.string and "assertion failed" not in error.message:
            for index, data in enumerate(tensor):
                try:
                    self._decode(data, index)
                except tf.errors.InvalidArgumentError as decoding:
                    return RequestError(_reason(decoding.message, index))
        return RequestError(_reason(error.message))


def _unwrapped(values, name):
    """Return the list of values, given as such or under the input's name, as a whole or by row."""
    if isinstance(values, dict):
        return values.get(name)
    if isinstance(values, list) and all(
        isinstance(value, dict) and set(value) == {name} for value in values
    ):
        return [value[name] for value in values]
    return values


def _plain(value):
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _reason(message, index=None):
    """Return TensorFlow's reason of an error, without its place in the graph."""
    found = _REASON.findall(message)
    line = found[-1].strip() if found else ""
    if asserted := _ASSERTED.search(line):
        return asserted[1]
    line = line or "the model refused the request"
    return (line if index is None else f"Image {index}: truncated or damaged: {line}.")[:300]
