"""A contact sheet: images of a split in a grid, with what is known of the objects in them."""

import os

import cv2
import numpy as np

_RED, _BLACK, _WHITE = (224, 32, 32), (0, 0, 0), (255, 255, 255)
_INK, _PAPER = (32, 32, 36), (255, 255, 255)
_GAP = 10  # pixels between cells
_TEXT_HEIGHT = 26
_DASH = 5
_FONT, _FONT_SCALE = cv2.FONT_HERSHEY_SIMPLEX, 0.5


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
    columns = min(columns, len(indices))
    rows = -(-len(indices) // columns)
    height, width = cell + _TEXT_HEIGHT + _GAP, cell + _GAP
    sheet = np.full((rows * height + _GAP, columns * width + _GAP, 3), _PAPER, np.uint8)
    for number, index in enumerate(indices):
        row, column = divmod(number, columns)
        top, left = row * height + _GAP, column * width + _GAP
        picture = _picture(split, truth, index, cell)
        # Pictures stand on their names, centred.
        bottom, middle = top + cell, left + (cell - picture.shape[1]) // 2
        sheet[bottom - picture.shape[0] : bottom, middle : middle + picture.shape[1]] = picture
        _write(sheet, split.class_names[split.labels[index]], left, bottom, cell)
    return sheet


def _picture(split, truth, index, cell):
    image = split.read(index)
    scale = cell / max(image.shape[:2])
    size = tuple(max(1, round(side * scale)) for side in image.shape[1::-1])
    shrinking = scale < 1
    picture = cv2.resize(
        image, size, interpolation=cv2.INTER_AREA if shrinking else cv2.INTER_CUBIC
    )
    if truth is None:
        return picture
    factors = np.divide(size, image.shape[1::-1])
    if truth.mask is not None:
        mask = truth.mask(index).astype(np.float32)
        smooth = cv2.resize(mask, size, interpolation=cv2.INTER_LINEAR)
        inside = (cv2.GaussianBlur(smooth, (0, 0), 1.2) > 0.5).astype(np.uint8)
        outlines, _ = cv2.findContours(inside, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(picture, outlines, -1, _WHITE, 1, cv2.LINE_AA)
        for outline in outlines:  # black dashes on white: seen on any ground, and thin
            for start in range(0, len(outline), 2 * _DASH):
                dash = outline[start : start + _DASH]
                cv2.polylines(picture, [dash], False, _BLACK, 1, cv2.LINE_AA)
        if truth.angles is not None:
            _draw_axis(picture, truth.mask(index), truth.angles[index], factors)
    for box in truth.boxes_of(index):
        # The outermost pixels inside the box, so that a box of the whole image can be seen.
        corners = np.rint(box * np.tile(factors, 2)).astype(int)
        cv2.rectangle(picture, corners[:2].tolist(), (corners[2:] - 1).tolist(), _RED, 2)
    return picture


def _draw_axis(picture, mask, angle, factors):
    """Draw the main axis through the mask's centre, as far as the mask reaches along it."""
    points = np.argwhere(mask)[:, ::-1] + 0.5  # [N, 2] xy
    centre, direction = points.mean(axis=0), np.array((np.cos(angle), np.sin(angle)))
    along = (points - centre) @ direction
    ends = centre + np.outer((along.min(), along.max()), direction)
    start, end = np.rint((ends * factors - 0.5) * 16).astype(int).tolist()
    cv2.line(picture, start, end, _WHITE, 1, cv2.LINE_AA, 4)
    for point in (start, end):
        cv2.circle(picture, point, 34, _WHITE, cv2.FILLED, cv2.LINE_AA, 4)


def _write(sheet, text, left, top, width):
    """Write centred in a cell, shortened to fit; the built-in font knows ASCII only."""
    text = text.encode("ascii", "replace").decode()
    while (measure := cv2.getTextSize(text, _FONT, _FONT_SCALE, 1)[0][0]) > width and len(text) > 4:
        text = text[:-3].rstrip(".") + ".."
    origin = (left + max(0, width - measure) // 2, top + 19)
    cv2.putText(sheet, text, origin, _FONT, _FONT_SCALE, _INK, 1, cv2.LINE_AA)


def save_sheet(path, split, truth=None, count=20, columns=5, cell=224):
    """Write a sheet of up to `count` images, one of each class in turn, to an image file.

    Returns:
        How many images are on it.
    """
    suffix = os.path.splitext(path)[1]
    if not suffix or not cv2.haveImageWriter(suffix):
        raise ValueError(
            f"Cannot write an image as {path!r}. Use a name that ends in .png or .jpg."
        )
    indices = _spread(split.labels, count)
    sheet = contact_sheet(split, truth, indices, columns, cell)
    options = [cv2.IMWRITE_PNG_COMPRESSION, 9] if suffix.lower() == ".png" else []
    _, data = cv2.imencode(suffix, sheet[..., ::-1], options)
    temporary = f"{path}.{os.getpid()}.partial"
    with open(temporary, "wb") as file:
        file.write(data.tobytes())
    os.replace(temporary, path)
    return len(indices)


def _spread(labels, count):
    """Return up to `count` indices that take the classes in turn, in order of the labels."""
    labels = np.asarray(labels)
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], labels[order])
    turn = np.empty(len(labels), int)
    turn[order] = np.arange(len(labels)) - starts  # how many of the class come before
    return np.lexsort((labels, turn))[:count]
