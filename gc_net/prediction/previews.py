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
from gc_net.figures.contact_sheet import classes_in_turn
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
    which: str = "classes",
) -> str:
    """Draw `count` results, all if None, as `previews/NAME.jpg` in `folder`; return that folder.

    Args:
        root: Folder that the files of the results are relative to.
        results: Iterable of (file, `Prediction`), which is iterated twice.
        which: `"classes"` takes the classes in turn, some of each drawn at random; `"doubtful"`
            takes those of the lowest confidence.
    """
    chosen = None if count is None else _chosen(results, count, which)
    results = (result for result in results if chosen is None or result[0] in chosen)
    previews = os.path.join(folder, "previews")
    with (
        replaced_folder(previews) as target,
        concurrent.futures.ThreadPoolExecutor(_THREADS) as pool,
    ):
        while some := list(itertools.islice(results, _AT_ONCE)):  # so that memory stays flat
            list(pool.map(lambda result: _write(target, root, *result), some))
    return previews


def _chosen(results, count, which):
    """Return the names of the files to draw."""
    found = [(file, result.class_id, result.confidence) for file, result in results]
    if which == "doubtful":
        order = np.argsort([confidence for *_, confidence in found], kind="stable")[:count]
    else:
        mixed = np.random.default_rng(0).permutation(len(found))
        labels = np.array([label for _, label, _ in found], int)
        order = mixed[classes_in_turn(labels[mixed], count)]
    return {found[place][0] for place in order}


def draw(image: np.ndarray, prediction: Prediction) -> np.ndarray:
    """Return an image with the outlines and boxes of its objects, and a caption of the first."""
    height, width = image.shape[:2]
    picture = image
    for found in prediction.objects:
        picture = drawing.draw_prediction(
            picture,
            outline_rel=found.polygon() / found.size[::-1],
            box_rel_xyxy=[
                value / side
                for value, side in zip(found.box_xyxy, found.size[::-1] * 2, strict=True)
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
        return  # predicted by an earlier run, and missing now
    path = os.path.join(target, _preview_name(file))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as output:
        output.write(encode(".jpg", picture))


def _preview_name(file):
    """Return the name of a file's preview; a name that would be too long is shortened."""
    folder, name = os.path.split(file)
    if len(os.fsencode(name)) + len(".jpg") > _LONGEST_NAME:
        digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:12]
        start = os.fsencode(name)[: _LONGEST_NAME - len(f"-{digest}.jpg")]
        name = f"{start.decode('utf-8', 'ignore')}-{digest}"
    return os.path.join(folder, f"{name}.jpg")
