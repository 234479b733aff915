"""TF Serving's REST form over a model in this process: what the demo page talks to."""

import base64
import binascii
import json

import numpy as np
import tensorflow as tf

from gc_net.data.headers import read_header
from gc_net.data.splits import ImageError


class RequestError(ValueError):
    """A request that cannot be answered; the message says why."""


class RestModel:
    """Answers the JSON of a `:predict` request.

    Args:
        module: A `gc_net.export.signatures.ServingModule`, or another object with `signatures()`.
        max_pixels: Encoded images that have more, those of one request together, are refused before
            any is decoded.
    """

    def __init__(self, module, max_pixels):
        self.max_pixels = max_pixels
        self._module = module  # its functions do not keep it alive by themselves
        self._functions = module.signatures()

    def predict(self, body):
        """Return the JSON that answers `body`, both as bytes.

        Raises:
            RequestError: If the request makes no sense, or one of its images.
        """
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
            raise RequestError(_first_line(error.message)) from None
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
                    f"more than {self.max_pixels:,}."
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
            return data, read_header(data).size
        except ImageError as error:
            raise RequestError(f"Image {index}: {error}") from None


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


def _first_line(message):
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return (lines[0] if lines else "The model refused the request.")[:300]
