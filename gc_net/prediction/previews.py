"""Predictions drawn on their images, to look at."""

import concurrent.futures
import hashlib
import itertools
import os
from collections.abc import Iterable

import numpy as np

from gc_net.atomic_files import replaced_folder
from gc_net.data.decode import IN_FLIGHT, read_image
from gc_net.data.splits import ImageError
from gc_net.figures import drawing
from gc_net.figures.picture_files import encode
from gc_net.prediction.prediction import Prediction

_LONGER_SIDE = 640
_THREADS = 2
_AT_ONCE = 16
_LONGEST_NAME = 255  # bytes, on most file systems


def write_previews(
    folder: str | os.PathLike,
    root: str,
    results: Iterable[tuple[str, Prediction]],
    count: int | None = None,
) -> None:
    """Draw the first `count` results, all if None, as `previews/NAME.jpg` in `folder`.

    Args:
        root: Folder that the files of the results are relative to.
        results: Iterable of (file, `Prediction`).
    """
    results = itertools.islice(results, count)
    with (
        replaced_folder(os.path.join(folder, "previews")) as target,
        concurrent.futures.ThreadPoolExecutor(_THREADS) as pool,
    ):
        while some := list(itertools.islice(results, _AT_ONCE)):  # so that memory stays flat
            list(pool.map(lambda result: _write(target, root, *result), some))


def draw(image: np.ndarray, prediction: Prediction) -> np.ndarray:
    """Return an image with the outline, the box and a caption."""
    height, width = image.shape[:2]
    picture = drawing.draw_prediction(
        image,
        outline_rel=prediction.polygon() / prediction.size[::-1],
        box_rel_xyxy=[
            value / side
            for value, side in zip(prediction.box_xyxy, prediction.size[::-1] * 2, strict=True)
        ],
        longer_side=min(_LONGER_SIDE, max(height, width, 224)),
    )
    caption = f"{prediction.class_name} {prediction.class_probability:.2f}"
    if prediction.confidence is not None:
        caption += f", confidence {prediction.confidence:.2f}"
    return drawing.grid([picture], 1, [caption])


def _write(target, root, file, prediction):
    try:
        with IN_FLIGHT.image():
            image = read_image(os.path.join(root, file), target=_LONGER_SIDE)
            picture = draw(image, prediction)
    except ImageError:
        return  # predicted by an earlier run, and gone since
    path = os.path.join(target, _preview_name(file))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as output:
        output.write(encode(".jpg", picture))


def _preview_name(file):
    """Return the name of a file's preview: as long as a name may be, however long the file's is."""
    folder, name = os.path.split(file)
    if len(os.fsencode(name)) + len(".jpg") > _LONGEST_NAME:
        digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:12]
        start = os.fsencode(name)[: _LONGEST_NAME - len(f"-{digest}.jpg")]
        name = f"{start.decode('utf-8', 'ignore')}-{digest}"
    return os.path.join(folder, f"{name}.jpg")
