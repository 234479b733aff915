"""A client of a served model, which is used like a loaded model."""

import time

from gc_net.data.headers import read_header
from gc_net.data.loading import Unreadable
from gc_net.data.splits import ImageError
from gc_net.figures.picture_files import encode
from gc_net.prediction.inputs import sources_split
from gc_net.prediction.prediction import Prediction
from gc_net.serving.transports import TRANSPORTS, BadRequest, ServerError, transport_of

_ATTEMPTS = 3  # for a good image that was refused


class Client:
    """Asks TF Serving, or `gc-net serve`, for predictions.

    Args:
        address: `"http://localhost:8501"` for REST, `"localhost:8500"` for gRPC.
        model: Name of the served model.
        version: Number of its version; the newest if None.
        timeout: Seconds for the whole answer to one request.
        retries: How often a request is sent again, after longer and longer pauses, if the
            connection breaks, no answer comes in time, or the server is busy.

    Example:
        with gc_net.serving.Client("http://localhost:8501", "birds") as client:
            for prediction in client.predict(["a.jpg", "b.png"]):
                print(prediction.class_name, prediction.box_xyxy, prediction.confidence)
    """

    def __init__(self, address, model, version=None, timeout=60.0, retries=3):
        transport = TRANSPORTS.get(transport_of(address))
        self.transport = transport(
            address, model, version=version, timeout=timeout, retries=retries
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Close the connection."""
        self.transport.close()

    def predict(self, images, batch_size=8, unreadable=None, deadline=None):
        """Return a `Prediction` for each image, in order.

        Args:
            images: As for `Localizer.predict`: file names, bytes of files or RGB arrays.
            batch_size: Images a request.
            unreadable: An `Unreadable` that collects images that could not be read, here or by
                the server, under their file name or as `images[3]`. If None, each is logged.
            deadline: Seconds for the whole call, all retries included; no limit if None.

        Returns:
            A list with one entry an image: a `Prediction`, or None if it could not be read.

        Raises:
            ServerError: If the server cannot be reached, does not serve the model, or gives a
                meaningless answer. Its `predictions` are those until then.
        """
        unreadable = Unreadable(announce=True) if unreadable is None else unreadable
        split = sources_split(images, ())
        predictions = [None] * len(split)
        self.transport.deadline = None if deadline is None else time.monotonic() + deadline
        try:
            self._predict(split, predictions, batch_size, unreadable)
        except ServerError as error:
            error.predictions = predictions
            raise
        return predictions

    def _predict(self, split, predictions, batch_size, unreadable):
        files = {}
        for index in range(len(split)):
            try:
                files[index] = _as_file(split.read, index)
            except ImageError as error:
                unreadable.add(split.file(index), str(error))
            if len(files) == batch_size:
                self._send(files, predictions, split, unreadable)
                files = {}
        if files:
            self._send(files, predictions, split, unreadable)

    def _send(self, files, predictions, split, unreadable):
        """Ask for `files`; if the server refuses them, ask for each half, down to the bad ones."""
        indices = list(files)
        try:
            outputs = self.transport.predict([files[index] for index in indices])
        except BadRequest as error:
            if len(indices) == 1:
                self._send_again(indices[0], error, predictions, split, unreadable)
                return
            middle = len(indices) // 2
            for half in (indices[:middle], indices[middle:]):
                self._send({index: files[index] for index in half}, predictions, split, unreadable)
            return
        for row, index in enumerate(indices):
            predictions[index] = Prediction.from_outputs(
                {name: value[row] for name, value in outputs.items()}
            )

    def _send_again(self, index, error, predictions, split, unreadable):
        """Find out whether a refused image is bad, because the server may have refused another.

        A server with batching joins requests of several clients, and refuses all of them for one.
        """
        try:
            file = _as_png(split.read(index))
        except ImageError as reason:
            unreadable.add(split.file(index), str(reason))
            return
        for _ in range(_ATTEMPTS):
            try:
                outputs = self.transport.predict([file])
            except BadRequest as again:
                error = again
                continue
            predictions[index] = Prediction.from_outputs(
                {name: value[0] for name, value in outputs.items()}
            )
            return
        unreadable.add(split.file(index), f"refused by the server: {error}")


def _as_file(read, index):
    """Return an image as the bytes of a file that the server decodes to the same pixels."""
    data = read.encoded(index)
    if data is not None and _decodes_alike(data):
        return data
    return _as_png(read(index))


def _decodes_alike(data):
    """Return whether TensorFlow decodes a file, in a graph, to the same pixels as this package."""
    header = read_header(data)
    # A PNG may declare one colour transparent, in a chunk of this name; TensorFlow ignores that.
    plain = header.kind == "PNG" and header.orientation == 1 and b"tRNS" not in data
    return header.kind == "JPEG" or plain


def _as_png(image):
    return encode(".png", image)
