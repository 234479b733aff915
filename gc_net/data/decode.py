"""Image files to upright RGB arrays: the one decoder of training, evaluation and prediction.

All other pictures become uint8 RGB, as viewers and web pages show them. Greyscale is repeated over
the channels, CMYK is converted, 16 bits are scaled to 8, and palettes are looked up. Animations are
reduced to their first frame. Transparency is laid over white.
"""

import mmap
import os

import cv2
import numpy as np

from gc_net.data import pillow_formats
from gc_net.data.headers import check_file_size, check_png_chunks, read_header
from gc_net.data.pixels_in_flight import PixelsInFlight
from gc_net.data.splits import ImageError

IMAGE_EXTENSIONS = pillow_formats.extensions() | {
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff",
}  # fmt: skip
# Larger images are refused before they are decoded; three bytes a pixel make this 0.5 GB.
MAX_PIXELS = 178_956_970
# All threads that read images share this limit, which is that of one image.
IN_FLIGHT = PixelsInFlight(MAX_PIXELS)
# Raise this number when the same file may give other pixels than before; caches are keyed by it.
DECODER_VERSION = f"1-opencv-{cv2.__version__}"

# A reduced decode stays this much larger than what is asked for, so that the last step of shrinking
# is still an average over whole areas.
REDUCTION_MARGIN = 2
REDUCTIONS = (8, 4, 2)  # the largest that leaves enough is taken
_ALPHA_BACKGROUND = 255
_BASELINE = 0xC0  # marker of a JPEG that is decoded from top to bottom
_BLOCK_PIXELS = 1 << 20
# A progressive JPEG has several scans, usually 10. A small file could ask for thousands, so the
# work is limited to that of so many scans of the largest image.
_MAX_LARGEST_SCANS = 16

if "OPENCV_LOG_LEVEL" not in os.environ:
    # An unreadable file is reported once, by `ImageError`, and not by OpenCV on stderr as well.
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)


def read_image(path: str | os.PathLike, target: int | None = None) -> np.ndarray:
    """Return the image in a file, uint8 RGB [H, W, 3], upright.

    Args:
        path: File name.
        target: See `decode_image`.

    Raises:
        ImageError: If the file cannot be opened or decoded; the message says why.
    """
    return decode_image(read_bytes(path), target)


def decode_image(data: bytes, target: int | None = None) -> np.ndarray:
    """Return the image encoded in `data`, uint8 RGB [H, W, 3], upright.

    Args:
        data: Bytes of a JPEG, PNG, GIF, BMP, WebP, TIFF or AVIF file, or of a HEIC file where
            pillow-heif is installed.
        target: Side length the image will be shrunk to. A JPEG much larger than that is decoded
            at 1/2, 1/4 or 1/8 of its size, never below twice `target`: several times faster for
            photos of many megapixels, and the shrunk image differs by a few grey levels only.

    Raises:
        ImageError: If the data are no image, truncated, damaged or too large.

    Within `with IN_FLIGHT.image():` it waits while other threads have too many pixels in hand.
    """
    return decode_with_size(data, target)[0]


def decode_with_size(data: bytes, target: int | None = None) -> tuple[np.ndarray, tuple[int, int]]:
    """Return `decode_image(data, target)` and the full (height, width) of the upright image."""
    header = _checked_header(data)
    if header.kind == "JPEG":
        _check_jpeg(data, header)
    elif header.kind == "PNG":
        check_png_chunks(data)
    reduction = _reduction(header, target)
    IN_FLIGHT.take(_pixels_held(data, header, reduction))
    if header.kind in ("AVIF", "HEIC"):
        image = pillow_formats.pixels(data, header.kind)
    else:
        image = _to_rgb(_decode(data, header, reduction), header.kind)
    expected = (-(-header.stored_height // reduction), -(-header.stored_width // reduction))
    if header.kind == "TIFF":
        expected = header.size  # OpenCV turns a TIFF upright whatever it is asked for
    else:
        image = _upright(image, header.orientation)
        expected = expected[::-1] if header.orientation >= 5 else expected
    if image.shape[:2] != expected:
        raise ImageError(
            f"damaged: the {header.kind} header gives {expected[1]} × {expected[0]} pixels, "
            f"decoding gave {image.shape[1]} × {image.shape[0]}"
        )
    return np.ascontiguousarray(image), header.size


def read_size(path: str | os.PathLike) -> tuple[int, int]:
    """Return (height, width) of the upright image in a file, from its header alone.

    Raises:
        ImageError: If the file cannot be opened, is no image, or is too large.
    """
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return _checked_header(b"").size
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _checked_header(data).size
    except OSError as error:
        raise _unopened(error) from error


def read_bytes(path: str | os.PathLike) -> bytes:
    """Return the content of a file; raise `ImageError` if it cannot be opened."""
    try:
        # Not open().read(): each of its many system calls hands the interpreter to another thread.
        # Non-blocking: a pipe counts as an empty file, and its other end is not waited for.
        flags = getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(path, os.O_RDONLY | flags)
        try:
            size = os.fstat(descriptor).st_size
            check_file_size(size)
            data = os.read(descriptor, size)
            while len(data) < size and (more := os.read(descriptor, size - len(data))):
                data += more
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unopened(error) from error
    return data


class FileReader:
    """Reads the images of a split that live in files, by index: the `read` of such a `Split`.

    It is called with an index. It can also decode large photos at a reduced size, for the input
    pipeline.

    Args:
        root: Folder the names are relative to.
        files: [N] UTF-8 bytes.

    Example:
        split = Split(..., files=files, root=root, read=FileReader(root, files))
    """

    def __init__(self, root: str, files: np.ndarray):
        self.root = root
        self.files = files

    def path(self, index: int) -> str:
        return os.path.join(self.root, os.fsdecode(self.files[index]))

    def __call__(self, index: int) -> np.ndarray:
        return read_image(self.path(index))

    def reduced(self, index: int, target: int) -> tuple[np.ndarray, tuple[int, int]]:
        """Return the image, reduced where that is cheaper, and its full (height, width)."""
        return decode_with_size(read_bytes(self.path(index)), target)


def _unopened(error):
    return ImageError(f"cannot be opened: {error.strerror or error}")


def _checked_header(data):
    header = read_header(data)
    height, width = header.size
    if height * width > MAX_PIXELS:
        raise ImageError(
            f"too large: {width} × {height} pixels by its header, the limit is {MAX_PIXELS:,} "
            "pixels (gc_net.data.decode.MAX_PIXELS)"
        )
    return header


def _check_jpeg(data, header):
    if data.rfind(b"\xff\xd9", header.body) < 0:
        # Some versions of OpenCV fill what is missing with grey and say nothing.
        raise ImageError("truncated: the JPEG's data end before its end marker")
    scans = data.count(b"\xff\xda", header.body)
    if scans * header.stored_height * header.stored_width > _MAX_LARGEST_SCANS * MAX_PIXELS:
        raise ImageError(f"damaged, or made to waste time: a JPEG of {scans:,} scans")


def _reduction(header, target):
    if target is None or header.kind != "JPEG":
        return 1
    spare = min(header.stored_height, header.stored_width) // (REDUCTION_MARGIN * target)
    return next((factor for factor in REDUCTIONS if spare >= factor), 1)


def _pixels_held(data, header, reduction):
    """Return how many pixels are in memory while an image is decoded."""
    pixels = header.stored_height * header.stored_width
    # A progressive JPEG is held in full, even if it is decoded at a reduced size.
    progressive = header.kind == "JPEG" and data[header.body - 1] != _BASELINE
    return pixels if progressive else pixels // reduction**2


def _decode(data, header, reduction):
    if header.kind == "JPEG":
        reduced_flag = {1: 0, 2: 16, 4: 32, 8: 64}[reduction]  # the REDUCED bits, without BGR
        flags = cv2.IMREAD_COLOR_RGB | reduced_flag | cv2.IMREAD_IGNORE_ORIENTATION
    else:
        flags = cv2.IMREAD_UNCHANGED  # alpha and 16 bits are needed as they are
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error as error:
        raise ImageError(f"damaged {header.kind}: {error.err or error}") from error
    if image is None:
        raise ImageError(f"truncated or damaged: OpenCV cannot decode this {header.kind}")
    return image


def _to_rgb(image, kind):
    if kind == "JPEG":
        return image
    if image.dtype not in (np.uint8, np.uint16):
        raise ImageError(f"its pixels are {image.dtype}; expected 8 or 16 bits a channel")
    channels = 1 if image.ndim == 2 else image.shape[2]
    if channels not in (1, 3, 4):
        raise ImageError(f"it has {channels} channels; expected 1, 3 or 4")
    height, width = image.shape[:2]
    rgb = np.empty((height, width, 3), np.uint8)
    # Some rows at a time: the intermediate values take four times the image's memory.
    rows = max(1, _BLOCK_PIXELS // width)
    for start in range(0, height, rows):
        rgb[start : start + rows] = _rows_to_rgb(image[start : start + rows], channels, kind)
    return rgb


def _rows_to_rgb(image, channels, kind):
    if image.dtype == np.uint16:
        image = ((image.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if channels == 1:
        return cv2.cvtColor(image, cv2.COLOR_GRAY2RGB)
    if channels == 3:
        return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    return _over_background(cv2.cvtColor(image, cv2.COLOR_BGRA2RGBA), kind == "TIFF")


def _over_background(image, premultiplied):
    colour, alpha = image[..., :3], image[..., 3:]
    if alpha.min() == 255:
        return colour
    alpha = alpha.astype(np.uint32)
    # libtiff hands out colours that are already multiplied by their alpha.
    weighted = colour.astype(np.uint32) * (255 if premultiplied else alpha)
    blended = (weighted + _ALPHA_BACKGROUND * (255 - alpha) + 127) // 255
    return np.minimum(blended, 255).astype(np.uint8)


def _upright(image, orientation):
    """Apply an EXIF orientation: transposed first for 5 to 8, then mirrored."""
    if orientation >= 5:
        image = image.transpose(1, 0, 2)
    if orientation in (3, 4, 7, 8):
        image = image[::-1]
    if orientation in (2, 3, 6, 7):
        image = image[:, ::-1]
    return image
