"""A machine-learning backend of Label Studio: pre-annotations from a trained model.

Label Studio asks for `/health`, sends its labelling set-up to `/setup`, and tasks to `/predict`.
The form is that of the package label-studio-ml, which is not needed. Nothing is ever fetched: an
image is a file in one of the given folders, or a `data:` address in the request.
"""

import base64
import binascii
import json
import logging
import os
import re
import threading
import urllib.parse
from collections.abc import Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

from werkzeug.exceptions import BadRequest, RequestEntityTooLarge

from gc_net.data.loading import Unreadable
from gc_net.prediction.formats.label_studio import pre_annotation
from gc_net.serving.application import Application, json_response

_KINDS = {"RectangleLabels": "rectangle", "EllipseLabels": "ellipse"}
_NOTHING = {"result": [], "score": 0.0}
_BATCH_SIZE = 32

_log = logging.getLogger("gc_net")


class LabelStudioApp(Application):
    """Answers Label Studio.

    Args:
        name: Name of the model, which becomes a part of its version.
        localizer: The `Localizer`.
        folders: Folders of images, where the path of each task is searched.
        max_bytes, allowed_hosts: As for `Application`.
        max_images: Most tasks of one request.
    """

    def __init__(
        self,
        name: str,
        localizer: Any,
        folders: Sequence[str] = (),
        *,
        max_bytes: int = 32 * 2**20,
        max_images: int = 256,
        allowed_hosts: Sequence[str] = (),
    ):
        super().__init__(name, max_bytes, allowed_hosts)
        self._localizer = localizer
        self._folders = [os.path.realpath(folder) for folder in folders]
        self._max_images = max_images
        # One request at a time, to limit the memory.
        self._lock = threading.Lock()

    def routes(self):
        return {
            "/": ("GET", self._health),
            "/health": ("GET", self._health),
            "/versions": ("GET", self._versions),
            "/setup": ("POST", self._setup),
            "/predict": ("POST", self._predict),
            "/webhook": ("POST", self._webhook),
            "/train": ("POST", self._train),
        }

    def _health(self, request):
        del request
        return json_response({"status": "UP", "model_class": "gc_net"})

    def _versions(self, request):
        del request
        return json_response({"versions": [self.name]})

    def _setup(self, request):
        content = _content(request)
        if content.get("schema"):
            labelling(content["schema"])  # reports a set-up that does not fit at once
        return json_response({"model_version": self.name})

    def _webhook(self, request):
        # Label Studio reports each annotation; a model does not learn while it serves.
        _content(request)
        return json_response({"status": "ok"}, 201)

    def _train(self, request):
        del request
        raise BadRequest(
            "This model does not learn while it serves. Export the corrected tasks, and train with "
            "--warmup_teacher=corrections:file=EXPORT.json."
        )

    def _predict(self, request):
        content = _content(request)
        tasks = content.get("tasks")
        if not isinstance(tasks, list):
            raise BadRequest(f"Expected a list of tasks, received {tasks!r:.100}.")
        if len(tasks) > self._max_images:
            raise RequestEntityTooLarge(
                f"{len(tasks)} tasks in one request, the limit is {self._max_images}."
            )
        setup = labelling(content.get("label_config"))
        with self._lock:
            results = self._results(tasks, setup)
        return json_response({"results": results, "model_version": self.name})

    def _results(self, tasks, setup):
        results = [{**_NOTHING, "model_version": self.name} for _ in tasks]
        for start in range(0, len(tasks), _BATCH_SIZE):
            images = {}
            for number, task in enumerate(tasks[start : start + _BATCH_SIZE], start):
                try:
                    images[number] = self._image(task, setup)
                except ValueError as error:
                    _log.warning("Task %d has no image to look at: %s", number + 1, error)
            unreadable = Unreadable(announce=False)
            found = self._localizer.predict([*images.values()], _BATCH_SIZE, unreadable=unreadable)
            for _, reason in unreadable:
                _log.warning("An image cannot be read: %s.", reason)
            for number, prediction in zip(images, found, strict=True):
                score = None if prediction is None else setup.choose(prediction.classes)
                if score is not None:
                    results[number] = pre_annotation(
                        prediction,
                        score,
                        kind=setup.kind,
                        from_name=setup.from_name,
                        to_name=setup.to_name,
                        model_version=self.name,
                    )
        return results

    def _image(self, task, setup):
        """Return the file name or the bytes of a task's image; raise a `ValueError` without one."""
        data = task.get("data") if isinstance(task, dict) else None
        address = data.get(setup.data_key) if isinstance(data, dict) else None
        if not isinstance(address, str):
            raise ValueError(f"its data have no {setup.data_key!r}")
        if address.startswith("data:"):
            try:
                return base64.b64decode(address.partition(";base64,")[2], validate=True)
            except binascii.Error as error:
                raise ValueError(f"its base64 is damaged, {error}") from None
        return self._file(address)

    def _file(self, address):
        """Return the file of an address, in one of the folders."""
        parts = urllib.parse.urlsplit(address)
        # Files that Label Studio serves from a folder are named after ?d=.
        named = urllib.parse.parse_qs(parts.query).get("d")
        path = named[0] if named else urllib.parse.unquote(parts.path)
        path = path.lstrip("/")
        # Uploads are served below /data/upload/ and lie below upload/ in its media folder.
        for candidate in (path, path.removeprefix("data/")):
            for folder in self._folders:
                file = os.path.realpath(os.path.join(folder, candidate))
                if os.path.commonpath([file, folder]) == folder and os.path.isfile(file):
                    return file
        raise ValueError(
            f"{address!r:.200} is no file in the folders that --images names; nothing is fetched"
        )


class Labelling(NamedTuple):
    """The regions that a labelling set-up asks for.

    Attributes:
        kind: `"rectangle"` or `"ellipse"`.
        from_name, to_name: Names of the control and of the image.
        data_key: Name of the image's address among the data of a task.
        labels: Classes that can be chosen; empty if they are not listed.
    """

    kind: str
    from_name: str
    to_name: str
    data_key: str
    labels: frozenset[str]

    def choose(self, classes: Sequence[Any]) -> Any:
        """Return the likeliest of the `ClassScore`s that can be chosen, or None."""
        return next((each for each in classes if not self.labels or each.name in self.labels), None)


def labelling(config: Any) -> Labelling:
    """Read a labelling set-up, Label Studio's XML.

    Raises:
        BadRequest: If it has no rectangles or ellipses on an image.
    """
    if not isinstance(config, str):
        raise BadRequest(f"Expected the labelling set-up as text, received {config!r:.100}.")
    # An entity could expand to a million others; a set-up needs none.
    if re.search(r"<!\s*(DOCTYPE|ENTITY)", config, re.IGNORECASE):
        raise BadRequest("The labelling set-up declares a document type, which is not read.")
    try:
        root = ElementTree.fromstring(config)
    except ElementTree.ParseError as error:
        raise BadRequest(f"The labelling set-up is no XML: {error}.") from None
    images = {tag.get("name"): tag.get("value", "").removeprefix("$") for tag in root.iter("Image")}
    for name, kind in _KINDS.items():
        for control in root.iter(name):
            to_name = control.get("toName")
            if to_name in images and control.get("name"):
                labels = frozenset(
                    label.get("alias") or label.get("value", "") for label in control.iter("Label")
                )
                return Labelling(kind, control.get("name"), to_name, images[to_name], labels)
    raise BadRequest(
        "The labelling set-up has no RectangleLabels or EllipseLabels on an Image. "
        "gc-net predict --format=label_studio writes one that fits, label_studio.xml."
    )


def _content(request):
    try:
        content = json.loads(request.get_data())
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"Expected JSON: {error}.") from None
    if not isinstance(content, dict):
        raise BadRequest(f"Expected a JSON object, received a {type(content).__name__}.")
    return content
