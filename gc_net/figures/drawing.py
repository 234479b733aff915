"""Boxes, shapes, masks and captions on images, in the colours of the paper's Fig. 1.

NumPy and OpenCV only. Images are uint8 RGB [H, W, 3]; coordinates are relative to the image.
"""

from collections.abc import Callable, Sequence

import cv2
import numpy as np

BLUE, RED = (24, 96, 255), (224, 32, 32)  # predicted box, true box
BLACK, WHITE = (0, 0, 0), (255, 255, 255)
INK, PAPER = (32, 32, 36), (255, 255, 255)

GAP = 10  # pixels between the cells of a grid
TEXT_HEIGHT = 26  # below a cell with a caption
_FONT, _FONT_SCALE = cv2.FONT_HERSHEY_SIMPLEX, 0.5
_DASH = 5
_SHIFT = 4  # OpenCV takes coordinates in sixteenths of a pixel
# OpenCV's built-in font has letters other than English ones since version 5.
_UNICODE = int(cv2.__version__.split(".")[0]) >= 5


def draw_prediction(
    image: np.ndarray,
    *,
    outline_rel: np.ndarray | None = None,
    box_rel_xyxy: Sequence[float] | None = None,
    truth_boxes_rel_xyxy: Sequence[Sequence[float]] = (),
    longer_side: int | None = None,
) -> np.ndarray:
    """Draw a predicted shape in black, its box in blue, and true boxes in red.

    Args:
        image: uint8 [H, W, 3].
        outline_rel: [P, 2] points of the shape's border, from `Shape.outline`, or None.
        box_rel_xyxy: [4], or None.
        truth_boxes_rel_xyxy: [N, 4].
        longer_side: Resize to this first, so that lines on a small image are fine; not resized if
            None.

    Returns:
        A new image.

    Example:
        outline_rel = shape.outline(coefficients)[0]
        draw_prediction(image, outline_rel=outline_rel, box_rel_xyxy=boxes_rel_xyxy[0])
    """
    image = _checked(image)
    picture = image.copy() if longer_side is None else resize(image, longer_side)
    width = line_width(picture)
    for box in truth_boxes_rel_xyxy:
        draw_box(picture, box, RED, width)
    if outline_rel is not None:
        # A faint white rim, because black alone is invisible on dark ground.
        rim = picture.copy()
        _draw_polygon(rim, outline_rel, WHITE, width + 2)
        picture = cv2.addWeighted(picture, 0.5, rim, 0.5, 0)
        _draw_polygon(picture, outline_rel, BLACK, width)
    if box_rel_xyxy is not None:
        draw_box(picture, box_rel_xyxy, BLUE, width)
    return picture


def line_width(image: np.ndarray) -> int:
    """Return the width of lines, in pixels, that looks the same at every image size."""
    return max(1, round(max(image.shape[:2]) / 112))


def draw_box(
    image: np.ndarray, box_rel_xyxy: Sequence[float], color: tuple[int, int, int], width: int
) -> None:
    """Draw a box into `image`, on whole pixels, with its line inside the box and the image.

    So the box of a whole image is visible. Parts outside the image are cut off.
    """
    size = image.shape[1::-1]
    box = np.asarray(box_rel_xyxy, np.float64) * (size * 2)
    if not np.isfinite(box).all():
        return
    left, top, right, bottom = np.rint(np.clip(box, 0, size * 2)).astype(int)
    inside = image[top:bottom, left:right]  # a view; empty where the box is outside the image
    for line in (inside[:width], inside[-width:], inside[:, :width], inside[:, -width:]):
        line[:] = color


def _draw_polygon(image, points_rel, color, width):
    if not np.isfinite(points_rel).all():
        return
    points = _fixed(points_rel, image)
    cv2.polylines(image, [points[:, None]], True, color, width, cv2.LINE_AA, _SHIFT)


def _fixed(points_rel, image):
    """Return points [P, 2] in OpenCV's form, in fractions of a pixel.

    OpenCV has the centre of the first pixel at 0, this package at ½.
    """
    points = np.asarray(points_rel, np.float64) * image.shape[1::-1]
    return np.rint((points - 0.5) * 2**_SHIFT).astype(np.int32)


def draw_mask_outline(image: np.ndarray, mask: np.ndarray) -> None:
    """Draw the outline of a mask into `image`, in black and white dashes, visible on any ground."""
    smooth = cv2.resize(mask.astype(np.float32), image.shape[1::-1])
    inside = (cv2.GaussianBlur(smooth, (0, 0), 1.2) > 0.5).astype(np.uint8)
    outlines, _ = cv2.findContours(inside, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(image, outlines, -1, WHITE, 1, cv2.LINE_AA)
    for outline in outlines:
        for start in range(0, len(outline), 2 * _DASH):
            cv2.polylines(image, [outline[start : start + _DASH]], False, BLACK, 1, cv2.LINE_AA)


def draw_axis(image: np.ndarray, mask: np.ndarray, angle: float) -> None:
    """Draw the main axis of a mask into `image`, as far as the mask reaches along it."""
    points = np.argwhere(mask)[:, ::-1] + 0.5  # [N, 2] xy
    centre, direction = points.mean(axis=0), np.array((np.cos(angle), np.sin(angle)))
    along = (points - centre) @ direction
    ends = centre + np.outer((along.min(), along.max()), direction)
    start, end = _fixed(ends / mask.shape[::-1], image).tolist()
    cv2.line(image, start, end, WHITE, 1, cv2.LINE_AA, _SHIFT)
    for point in (start, end):
        cv2.circle(image, point, 34, WHITE, cv2.FILLED, cv2.LINE_AA, _SHIFT)


def mask_image(mask: np.ndarray) -> np.ndarray:
    """Return a mask [H, W] or [H, W, 1], from 0 to 1, as a grey image."""
    grey = to_uint8(255 * np.asarray(mask, np.float32).reshape(np.shape(mask)[:2]))
    return np.repeat(grey[..., None], 3, axis=-1)


def to_uint8(values: np.ndarray) -> np.ndarray:
    """Round and clip to 0–255."""
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def denormalizer(normalize: Callable) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from normalized images back to uint8 colours.

    A normalizer scales, shifts and perhaps swaps the channels. Its results for black, red, green
    and blue determine it.

    Args:
        normalize: Function of images [B, H, W, 3] in 0–255, e.g. `classifier.normalize`.
    """
    colors = np.concatenate([np.zeros((1, 3)), 255 * np.eye(3)]).astype(np.float32)
    black, *primaries = np.asarray(normalize(colors[:, None, None]), np.float64)[:, 0, 0]
    matrix = np.linalg.inv((np.array(primaries) - black) / 255)
    return lambda normalized: to_uint8((np.asarray(normalized, np.float64) - black) @ matrix)


def resize(image: np.ndarray, longer_side: int) -> np.ndarray:
    """Return an image in proportion, with `longer_side` pixels on its longer side."""
    scale = longer_side / max(image.shape[:2])
    size = tuple(max(1, round(side * scale)) for side in image.shape[1::-1])
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)


def grid(
    images: Sequence[np.ndarray | None],
    columns: int,
    captions: Sequence[str] | None = None,
    cell: tuple[int, int] | None = None,
) -> np.ndarray:
    """Lay images out in rows.

    Args:
        images: uint8 [H, W, 3] each; sizes may differ. They are at the bottom of their cells. None
            leaves a cell empty.
        columns: Number of columns; the last row may be shorter.
        captions: A text for each, shortened to the width of a cell; or None.
        cell: (height, width) of a cell; that of the largest image by default.

    Returns:
        uint8 [rows·(height + gap + text) + gap, columns·(width + gap) + gap, 3], where `columns`
        is at most the number of images, the gap is `GAP`, and the text 0 or `TEXT_HEIGHT`.
    """
    drawn = [_checked(image) for image in images if image is not None]
    if not drawn or columns < 1:
        raise ValueError(
            f"A grid needs at least 1 image and 1 column. Received: {len(drawn)} images, "
            f"columns={columns}."
        )
    if captions is not None and len(captions) != len(images):
        raise ValueError(f"{len(images)} images need as many captions. Received: {len(captions)}.")
    largest = np.max([image.shape[:2] for image in drawn], axis=0)
    height, width = (int(side) for side in (largest if cell is None else cell))
    if (largest > (height, width)).any():
        raise ValueError(f"Images of up to {tuple(largest.tolist())} do not fit cells of {cell}.")
    columns = min(columns, len(images))
    rows = -(-len(images) // columns)
    text_height = 0 if captions is None else TEXT_HEIGHT
    row_height, column_width = height + text_height + GAP, width + GAP
    sheet = np.full((rows * row_height + GAP, columns * column_width + GAP, 3), PAPER, np.uint8)
    for number, image in enumerate(images):
        row, column = divmod(number, columns)
        bottom, left = row * row_height + GAP + height, column * column_width + GAP
        if image is None:
            continue
        middle = left + (width - image.shape[1]) // 2
        sheet[bottom - image.shape[0] : bottom, middle : middle + image.shape[1]] = image
        if captions is not None:
            _write(sheet, captions[number], left, bottom, width)
    return sheet


def _write(sheet, text, left, top, width):
    """Write centred in a cell, shortened to fit."""
    if not _UNICODE:
        text = text.encode("ascii", "replace").decode()
    while (measure := cv2.getTextSize(text, _FONT, _FONT_SCALE, 1)[0][0]) > width and len(text) > 4:
        text = text[:-3].rstrip(".") + ".."
    origin = (left + max(0, width - measure) // 2, top + 19)
    cv2.putText(sheet, text, origin, _FONT, _FONT_SCALE, INK, 1, cv2.LINE_AA)


def _checked(image):
    image = np.asarray(image)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] != 3:
        raise ValueError(
            f"An image must be uint8 [H, W, 3]. Received: {image.dtype} {list(image.shape)}."
        )
    return image
