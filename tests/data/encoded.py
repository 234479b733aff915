"""One small picture in every encoding that tests need, made by OpenCV or byte by byte."""

import base64
import io
import struct
import zlib

import cv2
import numpy as np
from PIL import Image

RED, GREEN, BLUE = (200, 60, 30), (20, 200, 40), (30, 40, 220)


def picture(height=16, width=24):
    """A red picture with a green corner top left and a blue one bottom right, no symmetry."""
    image = np.empty((height, width, 3), np.uint8)
    image[:] = RED
    image[: height // 2, : width // 3] = GREEN
    image[height // 2 :, 2 * width // 3 :] = BLUE
    return image


def photo(height, width, seed=0):
    """A picture with structure at all scales, as photographs have."""
    rng = np.random.default_rng(seed)
    image = np.full((height, width, 3), 128.0)
    cells = 2
    while cells < min(height, width):
        noise = rng.normal(0, 30 / np.sqrt(cells / 2), (cells, cells, 3))
        image += cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)
        cells *= 2
    return np.clip(image, 0, 255).astype(np.uint8)


def encode(extension, image, *parameters):
    """Encode an RGB(A) or greyscale array with OpenCV."""
    if image.ndim == 3:
        code = cv2.COLOR_RGBA2BGRA if image.shape[2] == 4 else cv2.COLOR_RGB2BGR
        image = cv2.cvtColor(image, code)
    done, data = cv2.imencode(extension, image, list(parameters))
    assert done
    return data.tobytes()


def jpeg(image, quality=95, progressive=False):
    parameters = {
        cv2.IMWRITE_JPEG_QUALITY: quality,
        cv2.IMWRITE_JPEG_PROGRESSIVE: int(progressive),
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR: cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    }
    return encode(".jpg", image, *(number for pair in parameters.items() for number in pair))


def webp(image):
    return encode(".webp", image, cv2.IMWRITE_WEBP_QUALITY, 101)  # above 100: lossless


def exif(orientation, order=">"):
    mark = b"MM\0*" if order == ">" else b"II*\0"
    entry = struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0)
    return mark + struct.pack(order + "IH", 8, 1) + entry + struct.pack(order + "I", 0)


def jpeg_with_exif(image, orientation, order=">", thumbnail=b""):
    block = b"Exif\0\0" + exif(orientation, order) + thumbnail
    data = jpeg(image)
    return data[:2] + b"\xff\xe1" + struct.pack(">H", 2 + len(block)) + block + data[2:]


def png_chunk(name, content):
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)


def png_with_exif(image, orientation):
    data = encode(".png", image)
    return data[:33] + png_chunk(b"eXIf", exif(orientation)) + data[33:]


def webp_with_exif(image, orientation):
    height, width = image.shape[:2]
    size = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    block = exif(orientation, "<")
    body = b"WEBP" + b"VP8X" + struct.pack("<I", 10) + b"\x08\0\0\0" + size
    body += webp(image)[12:] + b"EXIF" + struct.pack("<I", len(block)) + block
    return b"RIFF" + struct.pack("<I", len(body)) + body


def avif(image, orientation=None, kind="AVIF"):
    """An AVIF, or a HEIC where `kind` says "HEIF" and its plug-in is there, of the best quality."""
    exif_block = b"Exif\0\0" + exif(orientation) if orientation else b""
    file = io.BytesIO()
    options = {"subsampling": "4:4:4"} if kind == "AVIF" else {"chroma": 444}
    Image.fromarray(image).save(file, kind, quality=100, exif=exif_block, **options)
    return file.getvalue()


def tiff(image, orientation=1):
    """An uncompressed TIFF: greyscale of 8 or 16 bits, or RGBA whose colours ignore the alpha."""
    height, width, channels = np.atleast_3d(image).shape
    bits = np.full(channels, 8 * image.itemsize, "<u2").tobytes()
    pixels = image.astype(f"<u{image.itemsize}").tobytes()
    fields = [(256, width), (257, height), (259, 1), (262, 2 if channels == 4 else 1)]
    fields += [(273, 8 + len(bits)), (274, orientation), (277, channels), (278, height)]
    fields += [(279, len(pixels))] + ([(338, 2)] if channels == 4 else [])
    entries = [struct.pack("<HHII", tag, 4 if tag < 338 else 3, 1, value) for tag, value in fields]
    where_bits = struct.pack("<I", 8) if channels > 2 else bits.ljust(4, b"\0")
    entries.insert(2, struct.pack("<HHI", 258, 3, channels) + where_bits)
    start = struct.pack("<2sHI", b"II", 42, 8 + len(bits) + len(pixels))
    directory = struct.pack("<H", len(entries)) + b"".join(entries) + bytes(4)
    return start + bits + pixels + directory


def bmp(pixels, palette=()):
    """An uncompressed BMP of rows from the top: BGRX [H, W, 4], or indices [H, W] of RGB colours.

    OpenCV itself writes no fourth byte, and grey as a palette in which each index is its colour.
    """
    height, width = pixels.shape[:2]
    bits = 8 * pixels[0, 0].nbytes
    colors = b"".join(bytes([blue, green, red, 0]) for red, green, blue in palette)
    fields = (40, width, -height, 1, bits, 0, pixels.nbytes, 0, 0, len(palette), 0)
    start = 54 + len(colors)
    header = struct.pack("<2sIHHI", b"BM", start + pixels.nbytes, 0, 0, start)
    return header + struct.pack("<IiiHHIIiiII", *fields) + colors + pixels.tobytes()


def png_bomb(height=20_000, width=20_000):
    """A whole, valid PNG of a few kilobytes that unpacks to height × width black pixels."""
    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(bytes(1 + width // 8)) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    chunks = png_chunk(b"IHDR", header) + png_chunk(b"IDAT", rows) + png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def avif_bomb(height=14_000, width=14_000):
    """An AVIF of a few pixels whose header says that it has height × width."""
    data = bytearray(avif(picture()))
    place = data.index(b"ispe") + 8
    data[place : place + 8] = struct.pack(">II", width, height)
    return bytes(data)


_INDICES = (picture() == GREEN).all(axis=-1) + 2 * (picture() == BLUE).all(axis=-1)
PALETTE_BMP = bmp(_INDICES.astype(np.uint8), (RED, GREEN, BLUE))
# The fourth byte is 0 and means nothing.
PADDED_BMP = bmp(np.dstack([picture()[..., ::-1], np.zeros(picture().shape[:2], np.uint8)]))
# `picture()` in encodings that OpenCV does not write.
CMYK_JPEG = base64.b64decode(
    "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwACAQEBAQECAQEBAgICAgIEAwICAgIFBAQDBAYFBgYGBQYGBgcJCAYHCQcGBggL"
    "CAkKCgoKCgYICwwLCgwJCgoK/8AAFAgAEAAYBEMRAE0RAFkRAEsRAP/EABgAAQEBAQEAAAAAAAAAAAAAAAAJCgYH/8QA"
    "FBABAAAAAAAAAAAAAAAAAAAAAP/aAA4EQwBNAFkASwAAPwCJ6kCT6/jWgznuXAAAAGVd5e18D//Z"
)
YCCK_JPEG = base64.b64decode(
    "/9j/7gAOQWRvYmUAZAAAAAAC/9sAQwACAQEBAQECAQEBAgICAgIEAwICAgIFBAQDBAYFBgYGBQYGBgcJCAYHCQcGBggL"
    "CAkKCgoKCgYICwwLCgwJCgoK/8AAFAgAEAAYBEMRAE0RAFkRAEsRAP/EABoAAQACAwEAAAAAAAAAAAAAAAAICQMGCgf/"
    "xAAUEAEAAAAAAAAAAAAAAAAAAAAA/9oADgRDAE0AWQBLAAA/AMaYizRf490am5pwAAABKRz7rcB//9k="
)
PALETTE_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAABgAAAAQAgMAAABxSlcGAAAACVBMVEUUyCjIPB4eKNzKcoYZAAAAHUlEQVR42mNkYAhl"
    "YGBgYmBgIIliDGVgYAglXR8ATpsBHnGxF60AAAAASUVORK5CYII="
)
# The same palette with red transparent.
CLEAR_PALETTE_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAABgAAAAQAgMAAABxSlcGAAAACVBMVEUUyCjIPB4eKNzKcoYZAAAAAnRSTlP/AOW3MEoA"
    "AAAdSURBVHjaY2RgCGVgYGBiYGAgiWIMZWBgCCVdHwBOmwEecbEXrQAAAABJRU5ErkJggg=="
)
# Two frames: the picture, then the picture mirrored.
ANIMATED_GIF = base64.b64decode(
    "R0lGODlhGAAQAIEAABTIKMg8Hh4o3AAAACH5BAAKAAAALAAAAAAYABAAAAhGAAEIHCgwgMGDCBMGIEhQocODDAc+fBix"
    "4ESFFQFcxFhxY8KMHhGCDEkSoYCTKE+WDJAy5cqWKF/CFCATZs2WN12WnCkgIAAh+QQBCgADACwAAAAAGAAQAIEUyCjI"
    "PB4eKNwAAAAIWAADCBwocIDBgwYBKFyokCBBhAgZMnQ4EOJBiQspFrQ4AGNDjRw7etQYIKRHACRNjgTJ8aSAlzBfhiQZ"
    "M+ZMjTVh3qSYUyZHmj13OuwpQChBokYHIv2pMSAAOw=="
)
# Red, the colour of index 1, is transparent in the first frame.
CLEAR_GIF = ANIMATED_GIF.replace(b"!\xf9\x04\x00\x0a\x00\x00", b"!\xf9\x04\x01\x0a\x00\x01", 1)


def animation(kind, **options):
    """Five frames, or pages, of which the first is `picture()`, by Pillow."""
    frames = [Image.fromarray(np.roll(picture(), 3 * shift, axis=1)) for shift in range(5)]
    file = io.BytesIO()
    frames[0].save(file, kind, save_all=True, append_images=frames[1:], **options)
    return file.getvalue()


# What a reader of single images may stumble over. The WebP, lossless and one of photos, once broke
# the memory of a decoder that made room for one frame.
ANIMATIONS = {
    "GIF": animation("GIF", duration=50),
    "WebP": animation("WEBP", lossless=True, duration=50),
    "lossy WebP": animation("WEBP", duration=50, minimize_size=True),
    "PNG": animation("PNG", duration=50),
    "TIFF": animation("TIFF"),
    "packed TIFF": animation("TIFF", compression="tiff_lzw"),
    "AVIF": animation("AVIF", duration=50),
}
# Its header says one pixel, its frames have more.
LYING_GIF = ANIMATED_GIF[:6] + struct.pack("<HH", 1, 1) + ANIMATED_GIF[10:]
