"""A contact sheet: images of a split in a grid, with the truth about their objects."""

import os
from collections.abc import Sequence

import numpy as np

from gc_net.data.splits import ImageError, Split, Truth
from gc_net.figures import drawing
from gc_net.figures.picture_files import check_suffix, save_picture


def contact_sheet(
    split: Split,
    truth: Truth | None = None,
    indices: Sequence[int] | None = None,
    columns: int = 5,
    cell: int = 224,
) -> np.ndarray:
    """Draw images in a grid, each above its class name.

    If the truth is known, it shows boxes in red, the outline of the mask in black and white dashes,
    and the main axis as a white line with a dot at each end.

    Args:
        split: A `Split`.
        truth: The `Truth` that belongs to it, or None.
        indices: Which images, in order; all by default.
        columns: Number of columns; the last row may be shorter.
        cell: Longer side of each image on the sheet, in pixels.

    Returns:
        uint8 [H, W, 3] RGB.

    Raises:
        ValueError: There is nothing to draw, or a size is not positive.
    """
    indices = range(len(split)) if indices is None else indices
    if len(indices) == 0:
        raise ValueError(f"No images to draw: the split {split.name!r} has {len(split)}.")
    if columns < 1 or cell < 16:
        raise ValueError(
            f"A sheet needs at least 1 column and cells of at least 16 pixels. Received: "
            f"columns={columns}, cell={cell}."
        )
    pictures = [_picture(split, truth, index, cell) for index in indices]
    names = [split.class_names[split.labels[index]] for index in indices]
    return drawing.grid(pictures, columns, names, cell=(cell, cell))


def _picture(split, truth, index, cell):
    try:
        image = split.read(index)
    except ImageError as error:
        raise ImageError(
            f"{split.file(index)} cannot be read: {error}. gc-net check finds all such images."
        ) from error
    picture = drawing.resize(image, cell)
    if truth is None:
        return picture
    if truth.mask is not None:
        mask = truth.mask(index)
        drawing.draw_mask_outline(picture, mask)
        if truth.angles is not None and np.isfinite(truth.angles[index]):
            drawing.draw_axis(picture, mask, truth.angles[index])
    for box in truth.boxes_of(index):
        drawing.draw_box(picture, box / np.tile(image.shape[1::-1], 2), drawing.RED, 2)
    return picture


def save_sheet(
    path: str | os.PathLike,
    split: Split,
    truth: Truth | None = None,
    count: int = 20,
    columns: int = 5,
    cell: int = 224,
) -> int:
    """Write a sheet of up to `count` images, one of each class in turn, to an image file.

    Returns:
        The number of images on it.
    """
    check_suffix(path)
    indices = classes_in_turn(split.labels, count)
    sheet = contact_sheet(split, truth, indices, columns, cell)
    save_picture(path, sheet)
    return len(indices)


def classes_in_turn(labels: Sequence[int], count: int) -> np.ndarray:
    """Return up to `count` indices that take the classes in turn, in order of the labels."""
    labels = np.asarray(labels)
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], labels[order])
    turn = np.empty(len(labels), int)
    turn[order] = np.arange(len(labels)) - starts  # how many of the class come before
    return np.lexsort((labels, turn))[:count]
