"""Pictures as files: PNG, JPEG, WebP and others by OpenCV, PDF by matplotlib."""

import os
from typing import TYPE_CHECKING

import cv2
import numpy as np

from gc_net.atomic_files import replaced_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_picture(
    path: str | os.PathLike, picture: "np.ndarray | Figure", dots_per_inch: float = 300
) -> None:
    """Write a picture in the format of its name, all at once.

    Args:
        path: Name that ends in .png, .jpg, .pdf, or another suffix that OpenCV writes.
        picture: Image, uint8 RGB [H, W, 3], or a matplotlib `Figure`. In a PDF, a figure keeps its
            lines and letters.
        dots_per_inch: Resolution of a PDF, which sets the size of an image on paper.
    """
    path = os.fspath(path)
    check_suffix(path)
    suffix = os.path.splitext(path)[1].lower()
    data = _pdf(picture, dots_per_inch) if suffix == ".pdf" else encode(suffix, _pixels(picture))
    with replaced_file(path, "wb") as file:
        file.write(data)


def check_suffix(path: str | os.PathLike) -> None:
    """Raise if a picture cannot be written under such a name."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix != ".pdf" and not (suffix and cv2.haveImageWriter(suffix)):
        raise ValueError(
            f"Cannot write an image as {os.fspath(path)!r}. Use a name that ends in .png or .jpg, "
            "or .pdf."
        )


def encode(suffix: str, image: np.ndarray, quality: int | None = None) -> bytes:
    """Return an image, uint8 RGB [H, W, 3], as the content of a file.

    Args:
        suffix: Such as `".png"`.
        quality: From 0 to 100, of JPEG and WebP; OpenCV's by default.
    """
    # Level 9 makes files of photos 3 % smaller than level 6, and takes seven times as long.
    options = [cv2.IMWRITE_PNG_COMPRESSION, 6] if suffix == ".png" else []
    if quality is not None:
        kinds = {".webp": cv2.IMWRITE_WEBP_QUALITY, ".jpg": cv2.IMWRITE_JPEG_QUALITY}
        options = [kinds[suffix], quality]
    _, data = cv2.imencode(suffix, image[..., ::-1], options)
    return data.tobytes()


def _pixels(picture):
    if isinstance(picture, np.ndarray):
        return picture
    from gc_net.figures.plots import pixels

    return pixels(picture, 144)


def _pdf(picture, dots_per_inch):
    from gc_net.figures import plots

    if isinstance(picture, np.ndarray):
        scale = 72 / dots_per_inch
        height, width = picture.shape[:2]
        figure = plots.new_figure(width * scale, height * scale)
        axes = figure.add_axes([0, 0, 1, 1])
        axes.set_axis_off()
        # Not resampled: the file has the original pixels.
        axes.imshow(picture, interpolation="none", aspect="auto")
        picture = figure
    return plots.encode(picture, "pdf", dots_per_inch)
