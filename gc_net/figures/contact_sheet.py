"""A contact sheet: images of a split in a grid, with what is known of the objects in them."""

import cv2
import numpy as np

from gc_net.data.splits import ImageError
from gc_net.figures import drawing
from gc_net.figures.drawing import BLACK, RED, WHITE, draw_box
from gc_net.figures.picture_files import check_suffix, save_picture

_DASH = 5


def contact_sheet(split, truth=None, indices=None, columns=5, cell=224):
    """Draw images in a grid, each above its class name.

    Where the truth is known: boxes in red, the outline of the mask in black and white dashes, and
    the main axis as a white line with a dot at each end.

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
            f"{split.file(index)} cannot be read: {error}. gc-net check finds all such."
        ) from error
    picture = drawing.resize(image, cell)
    size = picture.shape[1::-1]
    if truth is None:
        return picture
    factors = np.divide(size, image.shape[1::-1])
    if truth.mask is not None:
        mask = truth.mask(index).astype(np.float32)
        smooth = cv2.resize(mask, size, interpolation=cv2.INTER_LINEAR)
        inside = (cv2.GaussianBlur(smooth, (0, 0), 1.2) > 0.5).astype(np.uint8)
        outlines, _ = cv2.findContours(inside, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(picture, outlines, -1, WHITE, 1, cv2.LINE_AA)
        for outline in outlines:  # black dashes on white: seen on any ground, and thin
            for start in range(0, len(outline), 2 * _DASH):
                dash = outline[start : start + _DASH]
                cv2.polylines(picture, [dash], False, BLACK, 1, cv2.LINE_AA)
        if truth.angles is not None:
            _draw_axis(picture, truth.mask(index), truth.angles[index], factors)
    for box in truth.boxes_of(index):
        draw_box(picture, box / np.tile(image.shape[1::-1], 2), RED, 2)
    return picture


def _draw_axis(picture, mask, angle, factors):
    """Draw the main axis through the mask's centre, as far as the mask reaches along it."""
    points = np.argwhere(mask)[:, ::-1] + 0.5  # [N, 2] xy
    centre, direction = points.mean(axis=0), np.array((np.cos(angle), np.sin(angle)))
    along = (points - centre) @ direction
    ends = centre + np.outer((along.min(), along.max()), direction)
    start, end = np.rint((ends * factors - 0.5) * 16).astype(int).tolist()
    cv2.line(picture, start, end, WHITE, 1, cv2.LINE_AA, 4)
    for point in (start, end):
        cv2.circle(picture, point, 34, WHITE, cv2.FILLED, cv2.LINE_AA, 4)


def save_sheet(path, split, truth=None, count=20, columns=5, cell=224):
    """Write a sheet of up to `count` images, one of each class in turn, to an image file.

    Returns:
        How many images are on it.
    """
    check_suffix(path)
    indices = classes_in_turn(split.labels, count)
    sheet = contact_sheet(split, truth, indices, columns, cell)
    save_picture(path, sheet)
    return len(indices)


def classes_in_turn(labels, count):
    """Return up to `count` indices that take the classes in turn, in order of the labels."""
    labels = np.asarray(labels)
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], labels[order])
    turn = np.empty(len(labels), int)
    turn[order] = np.arange(len(labels)) - starts  # how many of the class come before
    return np.lexsort((labels, turn))[:count]
