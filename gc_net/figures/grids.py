"""Grids of images with predictions of models; see `gc_net.figures.figure`."""

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gc_net.data import transforms
from gc_net.data.splits import DataError, ImageError, Split, Truth
from gc_net.figures.contact_sheet import classes_in_turn
from gc_net.figures.drawing import denormalizer, draw_prediction, grid, resize
from gc_net.figures.figure import Layout
from gc_net.localizer import Localizer
from gc_net.shapes.base import Shape

_log = logging.getLogger("gc_net")
_BATCH_SIZE = 32


class Scene(NamedTuple):
    """An image and its truth: uint8 [H, W, 3], [K, 4], text."""

    image: np.ndarray
    truth_boxes_rel_xyxy: np.ndarray
    class_name: str


def scenes(
    split: Split,
    truth: Truth | None,
    count: int,
    seed: int = 0,
    among: Sequence[int] | None = None,
) -> list[Scene]:
    """Return up to `count` random `Scene`s, with the classes in turn.

    Args:
        among: Indices to choose from; all if None. Unreadable images are left out with a warning.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.arange(len(split)) if among is None else among)
    order = order[classes_in_turn(split.labels[order], len(order))]
    found = []
    for index in order.tolist():
        if len(found) == count:
            break
        try:
            image = split.read(index)
        except ImageError as error:
            _log.warning("%s is left out: %s", split.file(index), error)
            continue
        boxes = np.zeros((0, 4)) if truth is None else truth.boxes_of(index)
        size = np.tile(image.shape[1::-1], 2)
        found.append(Scene(image, boxes / size, split.class_names[split.labels[index]]))
    if not found:
        raise DataError(f"The {split.name!r} split has no image for this figure.")
    return found


def outlines(
    shape: Shape, coefficients: np.ndarray, num_points: int = 64
) -> list[np.ndarray | None]:
    """Return the outlines [P, 2] of shapes in a list; None for a shape that is its own box.

    The box is drawn anyway, in its own colour.
    """
    if shape.outline_kind == "parallelogram" and not shape.rotates:
        return [None] * len(coefficients)
    return list(np.asarray(shape.outline(coefficients, num_points)))


def squashed(localizer: Localizer, chosen: Sequence[Scene]) -> np.ndarray:
    """Return scenes squashed for a localizer, uint8 [B, R, R, 3].

    Args:
        localizer: A `Localizer`.
        chosen: `Scene`s.
    """
    size = localizer.resize_size
    return np.stack([transforms.squash(scene.image, size) for scene in chosen])


def pictures(
    localizer: Localizer, chosen: Sequence[Scene], cell: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the predictions drawn on scenes, and their masked objects: two lists of squares.

    Predictions are drawn on whole images, squashed to `cell` pixels. Objects are the inputs of the
    classifier, from the central windows, in squares of the same side.
    """
    normalize = localizer.classifier.normalize
    to_colors = denormalizer(normalize)
    drawn, objects = [], []
    for start in range(0, len(chosen), _BATCH_SIZE):
        part = chosen[start : start + _BATCH_SIZE]
        placed = localizer.place(squashed(localizer, part))
        _, masked, _ = localizer.mask(normalize(placed.windows), placed.in_windows)
        objects += [resize(image, cell) for image in to_colors(masked)]
        drawn += [
            draw_prediction(
                transforms.squash(scene.image, cell),
                outline_rel=outline,
                box_rel_xyxy=box,
                truth_boxes_rel_xyxy=scene.truth_boxes_rel_xyxy,
            )
            for scene, outline, box in zip(
                part,
                outlines(localizer.shape, placed.coefficients),
                np.asarray(placed.boxes),
                strict=True,
            )
        ]
    return drawn, objects


def predictions(
    models: Mapping[str, Localizer], split: Split, truth: Truth | None, layout: Layout
) -> np.ndarray:
    """Draw rows of masked objects and of predictions in turn; each model has the same images."""
    chosen = scenes(split, truth, layout.count, layout.seed)
    columns = min(layout.columns, len(chosen))
    rows = []
    for localizer in models.values():
        drawn, objects = pictures(localizer, chosen, layout.cell)
        for start in range(0, len(chosen), columns):
            part = slice(start, start + columns)
            names = [scene.class_name for scene in chosen[part]]
            rows += [(objects[part], [""] * len(names)), (drawn[part], names)]
    return _sheet(rows, columns, layout.captions)


def ablation(
    models: Mapping[str, Localizer], split: Split, truth: Truth | None, layout: Layout
) -> np.ndarray:
    """Draw each image as a block: predictions above objects, a column for each model.

    It always has captions, since the models' names are needed.
    """
    chosen = scenes(split, truth, layout.count, layout.seed)
    results = [pictures(localizer, chosen, layout.cell) for localizer in models.values()]
    blocks = [
        grid(
            [row[place] for row, _ in results] + [row[place] for _, row in results],
            len(models),
            [""] * len(models) + list(models),
        )
        for place in range(len(chosen))
    ]
    return grid(blocks, max(1, layout.columns // len(models)))


def objects(
    models: Mapping[str, Localizer], split: Split, truth: Truth | None, layout: Layout
) -> np.ndarray:
    """Draw predictions for images with one true box, then for images with several."""
    if truth is None:
        raise DataError("This figure counts true boxes, and the dataset has none.")
    if len(models) != 1:
        raise ValueError(f"This figure is of one model. Received: {len(models)}.")
    (localizer,) = models.values()
    num_boxes = np.diff(truth.starts)
    rows = []
    for among in (np.flatnonzero(num_boxes == 1), np.flatnonzero(num_boxes > 1)):
        if len(among):
            chosen = scenes(split, truth, layout.count, layout.seed, among)
            drawn, _ = pictures(localizer, chosen, layout.cell)
            for start in range(0, len(chosen), layout.columns):
                part = slice(start, start + layout.columns)
                rows.append((drawn[part], [scene.class_name for scene in chosen[part]]))
    return _sheet(rows, layout.columns, layout.captions)


def _sheet(rows, columns, captions):
    """Lay out (images, names) of rows; any row may be short."""
    images, names = [], []
    for row, row_names in rows:
        missing = columns - len(row)
        images += row + [None] * missing
        names += row_names + [""] * missing
    return grid(images, columns, names if captions else None)
