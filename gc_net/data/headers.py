"""Headers of image files: kind, size and orientation, before anything is decoded.

With the size known first, a small file that claims 20,000 × 20,000 pixels is never decoded. OpenCV
cannot read headers, and docs/dependencies.md says why Pillow does not do it here. It does for AVIF
and HEIC, see `pillow_formats`.
"""

import dataclasses
import mmap
import struct

from gc_net.data import pillow_formats
from gc_net.data.splits import ImageError

# More than any image of `decode.MAX_PIXELS` needs, even uncompressed in 16 bits with transparency.
MAX_FILE_BYTES = 2 * 10**9

_ORIENTATION = 0x0112
_WIDTH, _HEIGHT = 0x0100, 0x0101
# Start-of-frame markers; 0xC4, 0xC8 and 0xCC in between mean something else.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length


@dataclasses.dataclass(frozen=True)
class Header:
    """Attributes:
    kind: `"JPEG"`, `"PNG"`, `"GIF"`, `"BMP"`, `"WebP"`, `"TIFF"`, `"AVIF"` or `"HEIC"`.
    stored_height, stored_width: Size as stored, before `orientation` is applied.
    orientation: EXIF orientation, 1 (upright) to 8.
    body: Where a JPEG's frame begins, after its metadata, which may hold a thumbnail JPEG.
    """

    kind: str
    stored_height: int
    stored_width: int
    orientation: int = 1
    body: int = 0

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of the upright image."""
        stored = (self.stored_height, self.stored_width)
        return stored[::-1] if self.orientation >= 5 else stored


def read_header(data: bytes | mmap.mmap) -> Header:
    """Return the `Header` of an encoded image.

    Args:
        data: Bytes, or anything that slices to bytes, such as an `mmap`: only headers are touched.

    Raises:
        ImageError: If the data are empty, of no known kind, or end within the header.
    """
    if len(data) == 0:
        raise ImageError("the file is empty (0 bytes)")
    start = bytes(data[:32])
    kind = pillow_formats.kind_of(start)
    if kind is not None:
        check_file_size(len(data))  # since all of it is read
        return _sized(Header(kind, *pillow_formats.header_of(bytes(data), kind)))
    found = next(((kind, parse) for matches, kind, parse in _KINDS if matches(start)), None)
    if found is None:
        raise ImageError(
            f"not a JPEG, PNG, GIF, BMP, WebP, TIFF, AVIF or HEIC image: it begins with "
            f"{start[:8]!r}"
        )
    kind, parse = found
    try:
        header = Header(kind, *parse(data))
    except (struct.error, IndexError) as error:
        raise ImageError(f"truncated: the {kind} header is incomplete") from error
    return _sized(header)


def check_file_size(size: int) -> None:
    """Raise an `ImageError` if a file is larger than any image needs to be."""
    if size > MAX_FILE_BYTES:
        raise ImageError(f"too large: {size:,} bytes, the limit is {MAX_FILE_BYTES:,}")


def _sized(header):
    if header.stored_height < 1 or header.stored_width < 1:
        raise ImageError(
            f"the {header.kind} header gives a size of {header.stored_width} × "
            f"{header.stored_height}"
        )
    return header


def _unpack(layout, data, offset):
    return struct.unpack(layout, data[offset : offset + struct.calcsize(layout)])


def _jpeg(data):
    orientation, position = 1, 2
    while True:
        (mark,) = _unpack("B", data, position)
        if mark != 0xFF:
            raise ImageError(f"damaged: no JPEG marker at byte {position}")
        (marker,) = _unpack("B", data, position + 1)
        if marker == 0xFF:  # padding before a marker
            position += 1
            continue
        position += 2
        if marker in _JPEG_BARE:
            continue
        if marker in (0xD9, 0xDA):
            raise ImageError("damaged: the JPEG has no frame header")
        (length,) = _unpack(">H", data, position)
        if marker in _JPEG_FRAMES:
            height, width = _unpack(">HH", data, position + 3)
            return height, width, orientation, position
        if marker == 0xE1 and data[position + 2 : position + 8] == b"Exif\0\0":
            orientation = _exif_orientation(bytes(data[position + 8 : position + length]))
        position += length


def _png(data):
    if data[12:16] != b"IHDR":
        raise ImageError("damaged: the PNG does not begin with an IHDR chunk")
    width, height = _unpack(">II", data, 16)
    return height, width, _chunk_orientation(data, 8, ">I4s", b"eXIf", trailer=4)


def check_png_chunks(data: bytes) -> None:
    """Raise an `ImageError` if a PNG's chunk claims to be longer than the file.

    OpenCV allocates the claimed size before it reads: two gigabytes for a small file.
    """
    position, name = 8, b""
    while position + 8 <= len(data) and name != b"IEND":
        length, name = _unpack(">I4s", data, position)
        position += 12 + length
        if position > len(data):
            raise ImageError(
                f"truncated or damaged: a chunk of the PNG has {length:,} bytes by its header, "
                "more than the file"
            )


def _webp(data):
    chunk = bytes(data[12:16])
    if chunk == b"VP8X":
        low_width, high_width, low_height, high_height = _unpack("<HBHB", data, 24)
        width, height = 1 + low_width + (high_width << 16), 1 + low_height + (high_height << 16)
    elif chunk == b"VP8L":
        (bits,) = _unpack("<I", data, 21)
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    elif chunk == b"VP8 ":
        width, height = (side & 0x3FFF for side in _unpack("<HH", data, 26))
    else:
        raise ImageError(f"damaged: unknown WebP chunk {chunk!r}")
    return height, width, _chunk_orientation(data, 12, "<4sI", b"EXIF", padding=2)


def _chunk_orientation(data, position, layout, wanted, trailer=0, padding=1):
    """Walk the chunks of a PNG or WebP for the one that holds EXIF data."""
    while position + 8 <= len(data):
        first, second = _unpack(layout, data, position)
        name, length = (first, second) if isinstance(first, bytes) else (second, first)
        if name == wanted:
            return _exif_orientation(bytes(data[position + 8 : position + 8 + length]))
        position += 8 + -(-length // padding) * padding + trailer
    return 1


def _gif(data):
    width, height = _unpack("<HH", data, 6)
    return height, width


def _bmp(data):
    (header_size,) = _unpack("<I", data, 14)
    width, height = _unpack("<HH" if header_size == 12 else "<ii", data, 18)
    return abs(height), width  # a negative height means rows from the top


def _tiff(data):
    fields = _tiff_fields(data)
    if _WIDTH not in fields or _HEIGHT not in fields:
        raise ImageError("damaged: the TIFF directory gives no size")
    return fields[_HEIGHT], fields[_WIDTH], _valid_orientation(fields.get(_ORIENTATION, 1))


def _tiff_fields(data):
    """Return the integer fields of the first directory of a TIFF, plain or BigTIFF."""
    order = {b"II": "<", b"MM": ">"}[bytes(data[:2])]
    big = _unpack(order + "H", data, 2)[0] == 43
    (position,) = _unpack(order + ("Q" if big else "I"), data, 8 if big else 4)
    (count,) = _unpack(order + ("Q" if big else "H"), data, position)
    position += 8 if big else 2
    entry_size, value_at = (20, 12) if big else (12, 8)
    types = {3: "H", 4: "I", 16: "Q"}
    fields = {}
    for _ in range(min(count, 4096)):
        tag, type_code = _unpack(order + "HH", data, position)
        if type_code in types:
            (value,) = _unpack(order + types[type_code], data, position + value_at)
            fields.setdefault(tag, value)  # of a tag that is repeated, libtiff takes the first
        position += entry_size
    return fields


def _exif_orientation(exif):
    """Return the orientation in an EXIF block; a damaged block counts as upright, as in viewers."""
    exif = exif.removeprefix(b"Exif\0\0")
    try:
        return _valid_orientation(_tiff_fields(exif).get(_ORIENTATION, 1))
    except (struct.error, KeyError):
        return 1


def _valid_orientation(value):
    return value if 1 <= value <= 8 else 1


_TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_KINDS = (
    (lambda start: start.startswith(b"\xff\xd8\xff"), "JPEG", _jpeg),
    (lambda start: start.startswith(b"\x89PNG\r\n\x1a\n"), "PNG", _png),
    (lambda start: start.startswith((b"GIF87a", b"GIF89a")), "GIF", _gif),
    (lambda start: start[:4] == b"RIFF" and start[8:12] == b"WEBP", "WebP", _webp),
    (lambda start: start.startswith(_TIFF_STARTS), "TIFF", _tiff),
    (lambda start: start.startswith(b"BM"), "BMP", _bmp),
)
