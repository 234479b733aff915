"""Photos in formats that OpenCV does not read everywhere: AVIF by Pillow, HEIC by its plug-in.

Each format's reader is named here, so a file from elsewhere cannot reach any other of Pillow's
readers. Only headers are read until `pixels` is called.
"""

import importlib
import importlib.util
import io
from typing import TYPE_CHECKING

import numpy as np

from gc_net.data.splits import ImageError

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

# Kind: module and class of its reader.
_READERS = {
    "AVIF": ("PIL.AvifImagePlugin", "AvifImageFile"),
    "HEIC": ("pillow_heif", "HeifImageFile"),
}
HEIC_EXTENSIONS = frozenset({".heic", ".heif", ".hif"})
INSTALL_HEIC = "pip install pillow-heif"
_BRANDS = {b"avif": "AVIF", b"avis": "AVIF"} | dict.fromkeys(
    (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"), "HEIC"
)
_ORIENTATION = 0x0112


def extensions() -> frozenset[str]:
    """Return the suffixes that can be read here."""
    has_heic = importlib.util.find_spec("pillow_heif") is not None
    return frozenset({".avif"}) | (HEIC_EXTENSIONS if has_heic else frozenset())


def kind_of(start: bytes) -> str | None:
    """Return `"AVIF"`, `"HEIC"` or None, from the first 32 bytes of a file or more."""
    if start[4:8] != b"ftyp":
        return None
    brands = [start[place : place + 4] for place in range(8, min(len(start), 32), 4)]
    # "mif1" alone says only that there is an image; the brands after it give its kind.
    kinds = [_BRANDS[brand] for brand in brands if brand in _BRANDS]
    return None if not kinds else "AVIF" if "AVIF" in kinds else "HEIC"


def open_image(data: bytes, kind: str) -> "ImageFile":
    """Return an image whose header was read.

    Raises:
        ImageError: If it is damaged, or no installed package reads its kind.
    """
    module, name = _READERS[kind]
    try:
        reader = getattr(importlib.import_module(module), name)
    except ImportError:
        raise ImageError(f"a {kind} image, which needs a plug-in: `{INSTALL_HEIC}`") from None
    return _guarded(kind, lambda: reader(io.BytesIO(data)))


def header_of(data: bytes, kind: str) -> tuple[int, int, int]:
    """Return the stored height, the stored width, and the EXIF orientation."""
    image = open_image(data, kind)
    orientation = _guarded(kind, lambda: image.getexif().get(_ORIENTATION, 1))
    width, height = image.size
    valid = isinstance(orientation, int) and 1 <= orientation <= 8
    return height, width, orientation if valid else 1


def pixels(data: bytes, kind: str) -> np.ndarray:
    """Return the first image of a file, uint8 RGB [H, W, 3], as stored, transparency over white."""
    from PIL import Image

    image = open_image(data, kind)
    _guarded(kind, image.load)
    if not image.has_transparency_data:
        return np.asarray(image.convert("RGB"))
    image = image.convert("RGBA")
    opaque = Image.new("RGB", image.size, (255, 255, 255))
    opaque.paste(image, mask=image.getchannel("A"))
    return np.asarray(opaque)


def _guarded(kind, function):
    """Call a decoder; whatever it raises for a damaged file becomes an `ImageError`."""
    try:
        return function()
    except MemoryError:
        raise
    except Exception as error:  # each plug-in has errors of its own
        raise ImageError(f"truncated or damaged {kind}: {error}") from error
