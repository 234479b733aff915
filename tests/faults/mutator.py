"""Mutated image files, each given by a seed and a number, so that any one can be made again."""

import random
import struct
import zlib

import numpy as np

from tests.data import encoded

_PICTURE, _PHOTO = encoded.picture(), encoded.photo(96, 128)
_ALPHA = np.dstack([_PHOTO, _PHOTO[..., 0]])
_WIDE = np.uint16(257)

FILES = {
    "JPEG": encoded.jpeg(_PHOTO),
    "progressive JPEG": encoded.jpeg(_PHOTO, progressive=True),
    "grey JPEG": encoded.encode(".jpg", _PHOTO[..., 0]),
    "turned JPEG": encoded.jpeg_with_exif(_PICTURE, 6),
    "JPEG with a thumbnail": encoded.jpeg_with_exif(_PHOTO, 3, "<", encoded.jpeg(_PICTURE)),
    "CMYK JPEG": encoded.CMYK_JPEG,
    "YCCK JPEG": encoded.YCCK_JPEG,
    "PNG": encoded.encode(".png", _PICTURE),
    "PNG of a photo": encoded.encode(".png", _PHOTO),
    "transparent PNG": encoded.encode(".png", _ALPHA),
    "16-bit PNG": encoded.encode(".png", _PICTURE * _WIDE),
    "palette PNG": encoded.PALETTE_PNG,
    "transparent palette PNG": encoded.CLEAR_PALETTE_PNG,
    "turned PNG": encoded.png_with_exif(_PICTURE, 8),
    "GIF": encoded.ANIMATED_GIF,
    "GIF of a photo": encoded.encode(".gif", _PHOTO),
    "BMP": encoded.encode(".bmp", _PICTURE),
    "grey BMP": encoded.encode(".bmp", _PHOTO[..., 0]),
    "WebP": encoded.encode(".webp", _PHOTO),
    "lossless WebP": encoded.webp(_PICTURE),
    "turned WebP": encoded.webp_with_exif(_PICTURE, 5),
    "TIFF": encoded.encode(".tiff", _PHOTO),
    "plain TIFF": encoded.tiff(_PHOTO[..., 0], 7),
    "16-bit TIFF": encoded.encode(".tiff", _PICTURE * _WIDE),
    "transparent TIFF": encoded.tiff(_ALPHA),
    "AVIF": encoded.avif(_PHOTO),
    "turned, transparent AVIF": encoded.avif(_ALPHA, 6),
    "GIF of one pixel by its header": encoded.LYING_GIF,
    **{f"animated {kind}": data for kind, data in encoded.ANIMATIONS.items()},
}
_NUMBERS = (0, 1, 2, 127, 255, 256, 12_000, 20_000, 2**15 - 1, 2**15, 2**16 - 1, 2**24, 2**30)
_NUMBERS += (2**31 - 1, 2**31, 2**32 - 1)


def mutated(seed, number):
    """Return (name of the original, names of the mutations, bytes)."""
    rng = random.Random(f"{seed}/{number}")
    name = rng.choice(sorted(FILES))
    data = bytearray(FILES[name])
    kinds = rng.choices(
        list(_MUTATIONS), weights=[4, 2, 2, 2, 1, 1, 1, 2, 1], k=rng.choice((1, 1, 1, 2, 3))
    )
    for kind in kinds:
        if data:
            data = _MUTATIONS[kind](data, rng)
    if rng.random() < 0.5:
        data = _with_right_checksums(data)
    return name, kinds, bytes(data)


def _flip_bits(data, rng):
    end = len(data) if rng.random() < 0.6 else min(len(data), 64)
    for _ in range(rng.choice((1, 2, 8, 32))):
        data[rng.randrange(end)] ^= 1 << rng.randrange(8)
    return data


def _truncate(data, rng):
    return data[: rng.randrange(len(data))]


def _set_number(data, rng):
    """Write a number of the kind that programs stumble over somewhere near the start."""
    layout = rng.choice(("<H", ">H", "<I", ">I"))
    number = rng.choice(_NUMBERS) % 256 ** struct.calcsize(layout)
    place = rng.randrange(min(len(data), 160))
    data[place : place + struct.calcsize(layout)] = struct.pack(layout, number)
    return data


def _set_size(data, rng):
    """Write a size into the header where this kind of file has it."""
    width, height = rng.choice(_NUMBERS), rng.choice(_NUMBERS)
    start = bytes(data[:4])
    if start == b"\x89PNG":
        data[16:24] = struct.pack(">II", width, height)
        return _with_right_checksums(data)
    if start == b"GIF8":
        data[6:10] = struct.pack("<HH", width % 2**16, height % 2**16)
    elif start[:2] == b"BM":
        data[18:26] = struct.pack("<II", width, height)
    elif start == b"RIFF":
        data[24:30] = struct.pack("<I", width)[:3] + struct.pack("<I", height)[:3]
    elif start[:2] == b"\xff\xd8":
        for marker in (b"\xff\xc0", b"\xff\xc2"):
            if (place := data.find(marker)) >= 0:
                data[place + 5 : place + 9] = struct.pack(">HH", height % 2**16, width % 2**16)
    else:
        for tag, size in ((256, width), (257, height)):
            if (place := data.find(struct.pack("<H", tag))) >= 0:
                data[place + 8 : place + 12] = struct.pack("<I", size)
    return data


def _splice(data, rng):
    other = FILES[rng.choice(sorted(FILES))]
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


def _foreign_header(data, rng):
    other = FILES[rng.choice(sorted(FILES))]
    length = rng.randint(2, 64)
    return bytearray(other[:length]) + data[length:]


def _remove(data, rng):
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randint(1, 200) :]


def _repeat(data, rng):
    start = rng.randrange(len(data))
    part = data[start : start + rng.randint(1, 200)]
    return data[:start] + part * rng.choice((2, 3, 50)) + data[start:]


def _noise(data, rng):
    start = rng.randrange(len(data))
    length = rng.randint(1, 300)
    return data[:start] + rng.randbytes(length) + data[start + length :]


_MUTATIONS = {
    "bits flipped": _flip_bits,
    "truncated": _truncate,
    "number set": _set_number,
    "size set": _set_size,
    "spliced": _splice,
    "foreign header": _foreign_header,
    "part removed": _remove,
    "part repeated": _repeat,
    "noise": _noise,
}


def _with_right_checksums(data):
    """Correct the checksums of a PNG's chunks, without which nothing behind them is looked at."""
    place = 8
    while data[:4] == b"\x89PNG" and place + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, place)
        end = place + 8 + length
        if end + 4 > len(data):
            break
        struct.pack_into(">I", data, end, zlib.crc32(data[place + 4 : end]))
        place = end + 4
    return data
