"""From a decoded image to the square the network sees, and boxes along with it.

Every transform here is two steps: the image is squashed to a square of `resize_size` pixels,
whatever its aspect ratio, and then a `Window` of `image_size` pixels is taken out of it. Training
takes a random window, evaluation the central one (or the whole frame, with
`resize_size == image_size`), and ten-crop evaluation ten of them.

A random window depends only on (seed, epoch, index of the image). So any training image of any
epoch can be made again alone, for any number of threads and wherever a run resumes.
"""

import math
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np

# Raise this number when the same image would be squashed to other pixels; caches are keyed by it.
SQUASH_VERSION = 1

LARGEST_BLUR = 8  # times the size to shrink to
_LARGEST_SCRATCH = 3 * 2**20


class Window(NamedTuple):
    """A part cut out of the squashed image; mirrored left to right if `flip`.

    It is a square of the size that the network sees. If `height` and `width` are given, it is a
    part of that size in pixels, which is then resized to that square.
    """

    top: int
    left: int
    flip: bool = False
    height: int | None = None
    width: int | None = None


def default_resize_size(image_size: int) -> int:
    """Return the side to squash to for a crop of `image_size`: 256 for 224, as in the paper."""
    return round(image_size * 256 / 224)


def squash(image: np.ndarray, size: int) -> np.ndarray:
    """Resize an image to a square, ignoring its aspect ratio.

    If a side shrinks, the image is blurred before it is sampled, because plain bilinear
    interpolation would skip pixels and alias. The authors' code resizes with Pillow, whose bilinear
    filter grows with the scale. The blur here is a Gaussian whose variance is the difference
    between that filter's and plain interpolation's. On photos the result is within a grey level of
    Pillow's. It is closer than OpenCV's area averaging, and faster.

    Args:
        image: uint8 [H, W, 3].
        size: Side length of the result.

    Returns:
        uint8 [size, size, 3]; `image` itself if it already has that size.
    """
    height, width = image.shape[:2]
    if height == width == size:
        return image
    if max(height, width) > LARGEST_BLUR * size:
        # Such a wide blur is slow and hardly differs from an average.
        height, width = (min(side, LARGEST_BLUR // 2 * size) for side in (height, width))
        image = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    if max(height, width) > size:
        (taps_x, sigma_x), (taps_y, sigma_y) = _blur(width / size), _blur(height / size)
        image = cv2.GaussianBlur(
            image,
            (taps_x, taps_y),
            dst=_scratch_image(height, width),
            sigmaX=sigma_x,
            sigmaY=sigma_y,
            borderType=cv2.BORDER_REPLICATE,
        )
    return cv2.resize(image, (size, size), interpolation=cv2.INTER_LINEAR)


def random_windows(
    num_images: int,
    resize_size: int,
    image_size: int,
    *,
    seed: int,
    epoch: int,
    crop_scale: float = 0.0,
    crop_aspect: float = 1.0,
) -> np.ndarray:
    """Return the training windows of all images in `epoch`: random places, half of them flipped.

    Args:
        num_images: Number N of images.
        resize_size: Side of the squashed image.
        image_size: Side of the window.
        seed, epoch: Integers that determine the windows.
        crop_scale: Smallest side of a window as a part of the squashed image; the largest is all of
            it. 0 for windows of `image_size`.
        crop_aspect: Largest ratio of width to height, and of height to width.

    Returns:
        int16 [N, 5], rows of (top, left, flip, height, width).
    """
    _margin(resize_size, image_size)

    def draw(stream, columns):
        generator = np.random.PCG64([seed % 2**64, epoch % 2**64, stream])
        return np.random.Generator(generator).random((num_images, columns))

    places = draw(1, 3)
    sizes = np.full((num_images, 2), image_size)  # height and width
    if crop_scale or crop_aspect != 1:
        side, aspect = draw(2, 2).T
        side = crop_scale + (1 - crop_scale) * side if crop_scale else image_size / resize_size
        stretch = crop_aspect ** (aspect - 0.5)  # the root of a ratio between 1/a and a
        parts = np.stack([side / stretch, side * stretch], axis=-1)
        sizes = np.clip(np.round(parts * resize_size), 1, resize_size)
    offsets = np.column_stack([resize_size - sizes + 1, np.full(num_images, 2)])
    return np.column_stack([(places * offsets).astype(np.int16), sizes.astype(np.int16)])


def window_of(row: np.ndarray) -> Window:
    """Return a row of `random_windows` as a `Window`."""
    top, left, flip, height, width = row.tolist()
    return Window(top, left, bool(flip), height, width)


def center_window(resize_size: int, image_size: int) -> Window:
    """Return the central window, which evaluation looks at."""
    offset = _margin(resize_size, image_size) // 2
    return Window(offset, offset)


def central(images: Any, image_size: int) -> Any:
    """Return the central windows of squashed images [B, R, R, 3], arrays or tensors."""
    top, left = center_window(images.shape[1], image_size)[:2]
    return images[:, top : top + image_size, left : left + image_size]


def ten_windows(resize_size: int, image_size: int) -> list[Window]:
    """Return the four corners and the centre, then the same five flipped."""
    far = _margin(resize_size, image_size)
    corners = [Window(0, 0), Window(0, far), Window(far, 0), Window(far, far)]
    upright = [*corners, center_window(resize_size, image_size)]
    return [*upright, *(window._replace(flip=True) for window in upright)]


def take(
    image: np.ndarray, window: Window, image_size: int, out: np.ndarray | None = None
) -> np.ndarray:
    """Cut a window out of a squashed image.

    Args:
        image: uint8 [R, R, 3].
        window: Where, and whether mirrored.
        image_size: Side S of the result.
        out: Array to write to, uint8 [S, S, 3]; a new one is made if None.

    Returns:
        uint8 [S, S, 3], never a view of `image`.
    """
    out = np.empty((image_size, image_size, 3), np.uint8) if out is None else out
    height, width = window.height or image_size, window.width or image_size
    bottom, right = window.top + height, window.left + width
    if window.top < 0 or window.left < 0 or bottom > image.shape[0] or right > image.shape[1]:
        raise ValueError(
            f"The {window} of {width} × {height} pixels does not fit into an image of "
            f"{image.shape[1]} × {image.shape[0]}."
        )
    part = image[window.top : bottom, window.left : right]
    if (height, width) != (image_size, image_size):
        part = cv2.resize(part, (image_size, image_size), interpolation=cv2.INTER_LINEAR)
    if window.flip:
        cv2.flip(part, 1, dst=out)
    else:
        out[...] = part
    return out


def boxes_in_window(
    boxes_xyxy: np.ndarray,
    size: np.ndarray | Sequence[int],
    window: Window,
    resize_size: int,
    image_size: int,
) -> np.ndarray:
    """Map boxes from pixels of the original image to coordinates relative to a window.

    Args:
        boxes_xyxy: [..., 4] in pixels of the upright original image.
        size: [..., 2] or a pair: height and width of that image.
        window: The window the network sees.
        resize_size, image_size: Sides of the squashed image and of the window.

    Returns:
        `boxes_rel_xyxy`, float32 [..., 4]: 0 to 1 spans the window. Not clipped, since the paper's
        protocol compares boxes beyond the crop as well.
    """
    height_width = np.asarray(size, np.float64)
    scale = resize_size / np.concatenate([height_width[..., ::-1]] * 2, axis=-1)  # [..., 4]
    offset = np.array([window.left, window.top] * 2)
    boxes_rel_xyxy = (np.asarray(boxes_xyxy, np.float64) * scale - offset) / image_size
    if window.flip:
        left, top, right, bottom = np.moveaxis(boxes_rel_xyxy, -1, 0)
        boxes_rel_xyxy = np.stack([1 - right, top, 1 - left, bottom], axis=-1)
    return boxes_rel_xyxy.astype(np.float32)


def boxes_out_of_window(
    boxes_rel_xyxy: np.ndarray, window: Window, resize_size: int, image_size: int
) -> np.ndarray:
    """Map boxes [..., 4] from coordinates relative to a window to ones relative to the image.

    This inverts `boxes_in_window`, except for the size of the original. The dtype stays.
    """
    boxes = np.asarray(boxes_rel_xyxy)
    if window.flip:
        boxes = boxes * [-1, 1, -1, 1] + [1, 0, 1, 0]
        boxes = boxes[..., [2, 1, 0, 3]]
    offset = np.array([window.left, window.top] * 2) / resize_size
    return (boxes * (image_size / resize_size) + offset).astype(np.asarray(boxes_rel_xyxy).dtype)


def boxes_out_of_center(
    boxes_rel_xyxy: np.ndarray, resize_size: int, image_size: int
) -> np.ndarray:
    """Map boxes [..., 4] relative to the central window to ones relative to the image."""
    window = center_window(resize_size, image_size)
    return boxes_out_of_window(boxes_rel_xyxy, window, resize_size, image_size)


def _blur(scale):
    """Return number of taps and sigma of the blur before shrinking by `scale`.

    A triangle of half-width w has the variance w²/6. Pillow's reaches `scale` pixels to either
    side, plain bilinear interpolation one: the blur adds the difference.
    """
    if scale <= 1:
        return 1, 1.0  # one tap changes nothing
    variance = (scale**2 - 1) / 6
    if scale > 2:
        sigma = math.sqrt(variance)
        return 2 * math.ceil(2 * sigma) + 1, sigma
    # Three taps (v/2, 1 − v, v/2) have the variance v; sigma is what OpenCV makes them from.
    ratio = variance / 2 / (1 - variance)
    return 3, math.sqrt(-0.5 / math.log(ratio))


_scratch = threading.local()


def _scratch_image(height, width):
    """Return a buffer of this thread: new memory would cost as much as the blur itself."""
    needed = height * width * 3
    if needed > _LARGEST_SCRATCH:
        return None
    if not hasattr(_scratch, "memory"):
        _scratch.memory = np.empty(_LARGEST_SCRATCH, np.uint8)
    return _scratch.memory[:needed].reshape(height, width, 3)


def _margin(resize_size, image_size):
    if not 0 < image_size <= resize_size:
        raise ValueError(
            f"`image_size` must be positive and at most `resize_size`. Received: "
            f"image_size={image_size}, resize_size={resize_size}."
        )
    return resize_size - image_size
