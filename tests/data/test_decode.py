"""Every kind of image file that real folders hold, and every way in which one can be broken."""

import io
import os
import struct
import subprocess
import sys

import cv2
import numpy as np
import pytest
from PIL import Image

from gc_net.data import decode
from gc_net.data.splits import ImageError
from tests.data import encoded

PICTURE = encoded.picture()

# What each EXIF orientation asks for, in terms of whole-image turns and mirrors.
UPRIGHT = {
    1: lambda image: image,
    2: np.fliplr,
    3: lambda image: np.rot90(image, 2),
    4: np.flipud,
    5: lambda image: np.fliplr(np.rot90(image, -1)),
    6: lambda image: np.rot90(image, -1),
    7: lambda image: np.flipud(np.rot90(image, -1)),
    8: lambda image: np.rot90(image, 1),
}

WHOLE_FILES = {
    "JPEG": (encoded.jpeg(PICTURE), 3),
    "progressive JPEG": (encoded.jpeg(PICTURE, progressive=True), 3),
    "CMYK JPEG": (encoded.CMYK_JPEG, 3),
    "YCCK JPEG": (encoded.YCCK_JPEG, 3),
    "PNG": (encoded.encode(".png", PICTURE), 0),
    "palette PNG": (encoded.PALETTE_PNG, 0),
    "16-bit PNG": (encoded.encode(".png", PICTURE.astype(np.uint16) * 257), 0),
    "WebP": (encoded.webp(PICTURE), 0),
    "BMP": (encoded.encode(".bmp", PICTURE), 0),
    "TIFF": (encoded.encode(".tiff", PICTURE), 0),
    "16-bit TIFF": (encoded.encode(".tiff", PICTURE.astype(np.uint16) * 257), 0),
    "animated GIF": (encoded.ANIMATED_GIF, 0),
    "AVIF": (encoded.avif(PICTURE), 3),
}


def difference(image, expected):
    assert image.dtype == np.uint8
    assert image.shape == expected.shape
    return np.abs(image.astype(int) - expected.astype(int)).max()


@pytest.mark.parametrize("kind", WHOLE_FILES)
def test_every_kind_decodes_to_the_same_rgb_picture(kind, tmp_path):
    data, tolerance = WHOLE_FILES[kind]
    file = tmp_path / "with space é.IMG"
    file.write_bytes(data)
    assert difference(decode.decode_image(data), PICTURE) <= tolerance
    assert difference(decode.read_image(file), PICTURE) <= tolerance
    assert decode.read_size(str(file)) == PICTURE.shape[:2]


@pytest.mark.parametrize("extension", [".jpg", ".png", ".tiff", ".bmp"])
def test_greyscale_is_repeated_over_the_channels(extension):
    grey = np.arange(16, dtype=np.uint8)[:, None].repeat(24, 1) * 16
    image = decode.decode_image(encoded.encode(extension, grey))
    assert difference(image, np.dstack([grey] * 3)) <= (3 if extension == ".jpg" else 0)


def test_lossy_webp_is_read():
    data = encoded.encode(".webp", encoded.photo(64, 96), cv2.IMWRITE_WEBP_QUALITY, 95)
    image = decode.decode_image(data)
    assert image.shape == (64, 96, 3)
    assert np.abs(image.astype(int) - encoded.photo(64, 96)).mean() < 8


def test_sixteen_bits_keep_their_full_range():
    ramp = np.linspace(0, 65535, 24).astype(np.uint16)[None].repeat(16, 0)
    image = decode.decode_image(encoded.encode(".png", ramp))
    assert (image[0, 0, 0], image[0, -1, 0]) == (0, 255)
    np.testing.assert_array_equal(image[..., 0], np.round(ramp / 257).astype(np.uint8))


@pytest.mark.parametrize("extension", [".png", ".webp", ".tiff", ".avif"])
def test_transparency_is_laid_over_white(extension):
    alpha = np.linspace(0, 255, 24).astype(np.uint8)[None].repeat(16, 0)
    image = np.dstack([PICTURE, alpha])
    encode = {".webp": encoded.webp, ".tiff": encoded.tiff, ".avif": encoded.avif}
    data = encode.get(extension, lambda image: encoded.encode(extension, image))(image)
    opacity = alpha[..., None] / 255
    expected = np.round(PICTURE * opacity + 255 * (1 - opacity))
    tolerance = 3 if extension == ".avif" else 1
    assert difference(decode.decode_image(data), expected.astype(np.uint8)) <= tolerance


def test_a_transparent_palette_entry_becomes_white():
    expected = np.where(np.all(PICTURE == encoded.RED, -1)[..., None], 255, PICTURE)
    assert difference(decode.decode_image(encoded.CLEAR_PALETTE_PNG), expected) == 0


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("kind", ["JPEG", "little-endian JPEG", "PNG", "WebP", "AVIF"])
def test_exif_orientation_is_applied_to_pixels_and_size(kind, orientation, tmp_path):
    make = {
        "JPEG": encoded.jpeg_with_exif,
        "little-endian JPEG": lambda image, turn: encoded.jpeg_with_exif(image, turn, "<"),
        "PNG": encoded.png_with_exif,
        "WebP": encoded.webp_with_exif,
        "AVIF": encoded.avif,
    }[kind]
    file = tmp_path / "turned"
    file.write_bytes(make(PICTURE, orientation))
    expected = UPRIGHT[orientation](PICTURE)
    assert difference(decode.read_image(file), expected) <= 3
    assert decode.read_size(file) == expected.shape[:2]
    assert decode.read_image(file).flags.c_contiguous


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_tiff_orientation_is_applied_once(orientation, dtype, tmp_path):
    grey = (np.arange(6 * 9).reshape(6, 9) * 4).astype(dtype) * (257 if dtype == np.uint16 else 1)
    file = tmp_path / "turned.tif"
    file.write_bytes(encoded.tiff(grey, orientation))
    expected = UPRIGHT[orientation]((np.arange(6 * 9).reshape(6, 9) * 4).astype(np.uint8))
    assert difference(decode.read_image(file)[..., 0], expected) == 0
    assert decode.read_size(file) == expected.shape


def test_an_orientation_that_does_not_exist_counts_as_upright():
    assert difference(decode.decode_image(encoded.jpeg_with_exif(PICTURE, 9)), PICTURE) <= 3


BROKEN = {
    "empty file": (b"", "empty"),
    "text renamed to .jpg": (b"Dear all,\nplease find attached", "not a JPEG"),
    "HTML error page": (b"<!DOCTYPE html><html></html>", "not a JPEG"),
    "only a JPEG's start": (encoded.jpeg(PICTURE)[:30], "truncated|damaged"),
    "bomb": (encoded.png_bomb(), "20000 × 20000.*limit"),
    "zero size": (b"GIF89a" + bytes(20), "size of 0 × 0"),
    "only an AVIF's start": (encoded.avif(PICTURE)[:60], "truncated or damaged AVIF"),
    "AVIF bomb": (encoded.avif_bomb(), "14000 × 14000.*limit"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files_are_refused_with_the_reason(kind, tmp_path):
    data, reason = BROKEN[kind]
    file = tmp_path / "broken.jpg"
    file.write_bytes(data)
    for read in (decode.read_image, decode.read_size):
        with pytest.raises(ImageError, match=reason):
            read(file)


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9, 0.999])
@pytest.mark.parametrize("extension", [".jpg", ".png", ".webp", ".bmp", ".gif", ".tiff", ".avif"])
def test_truncated_files_are_refused_wherever_they_end(extension, kept):
    photo = encoded.photo(96, 128)
    data = encoded.avif(photo) if extension == ".avif" else encoded.encode(extension, photo)
    decode.decode_image(data)
    with pytest.raises(ImageError, match=r"truncated|damaged"):
        decode.decode_image(data[: min(int(kept * len(data)), len(data) - 2)])


def test_a_truncated_jpeg_is_noticed_behind_a_whole_thumbnail():
    thumbnail = encoded.jpeg(encoded.picture(8, 12))
    data = encoded.jpeg_with_exif(encoded.photo(96, 128), 1, thumbnail=thumbnail)
    decode.decode_image(data)
    with pytest.raises(ImageError, match="end before its end marker"):
        decode.decode_image(data[: int(0.7 * len(data))])


def test_bytes_after_the_end_of_a_jpeg_do_no_harm():
    assert difference(decode.decode_image(encoded.jpeg(PICTURE) + b"trailer" * 99), PICTURE) <= 3


def test_the_bomb_is_refused_from_a_few_kilobytes_in_no_time_and_memory():
    bomb = encoded.png_bomb()
    assert len(bomb) < 100_000
    script = (
        "import resource, sys\n"
        "from gc_net.data import decode\n"
        "data = sys.stdin.buffer.read()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n"
        "    decode.decode_image(data)\n"
        "except decode.ImageError:\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], input=bomb, capture_output=True)
    assert int(done.stdout) < 20_000  # kilobytes; the pixels would be 1.2 GB


def test_frames_larger_than_a_gifs_header_says_are_refused():
    with pytest.raises(ImageError, match="truncated or damaged"):
        decode.decode_image(encoded.LYING_GIF)


def test_a_png_chunk_longer_than_the_file_takes_no_memory(monkeypatch):
    data = bytearray(encoded.encode(".png", PICTURE))
    decode.decode_image(bytes(data) + b"trailer" * 9)
    place = data.index(b"IDAT") - 4
    data[place : place + 4] = struct.pack(">I", 2**31 - 1)
    monkeypatch.setattr(cv2, "imdecode", lambda *_: pytest.fail("was given to the decoder"))
    with pytest.raises(ImageError, match=r"truncated or damaged: a chunk of the PNG has 2,147,483"):
        decode.decode_image(bytes(data))


def test_a_jpeg_of_very_many_scans_is_refused_in_no_time(monkeypatch):
    data = encoded.jpeg(encoded.photo(64, 64), progressive=True)
    decode.decode_image(data)
    start = data.rindex(b"\xff\xda")
    last = data[start:-2]
    bomb = data[:-2] + 300 * last + data[-2:]
    monkeypatch.setattr(decode, "MAX_PIXELS", 64 * 64)
    with pytest.raises(ImageError, match=r"a JPEG of 3\d\d scans"):
        decode.decode_image(bomb)


def test_of_a_repeated_tiff_tag_the_first_counts_as_for_the_decoder():
    grey = (np.arange(6 * 9).reshape(6, 9) * 4).astype(np.uint8)
    data = bytearray(encoded.tiff(grey))
    entries = int.from_bytes(data[4:8], "little") + 2
    repeated = bytes(data[entries : entries + 4]) + struct.pack("<II", 1, 20_000)
    for place in range(entries, len(data) - 4, 12):  # the resolution's unit is free to be lost
        if data[place : place + 2] == struct.pack("<H", 274):
            data[place : place + 12] = repeated
    assert decode.read_header(bytes(data)).size == (6, 9)
    assert decode.decode_image(bytes(data)).shape == (6, 9, 3)


class TestHEIC:
    """Photos of phones, which a plug-in of Pillow reads."""

    @pytest.mark.parametrize("orientation", UPRIGHT)
    def test_is_read_upright_where_the_plug_in_is(self, orientation):
        pillow_heif = pytest.importorskip("pillow_heif")
        pillow_heif.register_heif_opener()  # the tests write with it
        data = encoded.avif(PICTURE, orientation, kind="HEIF")
        expected = UPRIGHT[orientation](PICTURE)
        image, size = decode.decode_with_size(data)
        assert size == expected.shape[:2] and difference(image, expected) <= 5
        assert ".heic" in decode.IMAGE_EXTENSIONS
        with pytest.raises(ImageError, match="truncated or damaged HEIC"):
            decode.decode_image(data[:-9])

    def test_is_refused_with_the_command_that_installs_the_plug_in(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pillow_heif", None)
        with pytest.raises(ImageError, match=r"a HEIC image.*`pip install pillow-heif`"):
            decode.decode_image(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(99))


def test_an_animated_avif_is_reduced_to_its_first_frame():
    file = io.BytesIO()
    frames = [Image.fromarray(image) for image in (PICTURE, PICTURE[::-1])]
    frames[0].save(
        file, "AVIF", quality=100, subsampling="4:4:4", save_all=True, append_images=frames[1:]
    )
    assert difference(decode.decode_image(file.getvalue()), PICTURE) <= 3


def test_a_pipe_is_an_empty_file_and_a_huge_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(ImageError, match="empty"):
        decode.read_image(tmp_path / "pipe.jpg")
    with open(tmp_path / "huge.jpg", "wb") as file:
        file.truncate(10**12)  # a hole that takes no space
    with pytest.raises(ImageError, match="too large: 1,000,000,000,000 bytes"):
        decode.read_image(tmp_path / "huge.jpg")
    with open(tmp_path / "huge.avif", "wb") as file:
        file.write(encoded.avif(PICTURE))
        file.truncate(10**12)
    with pytest.raises(ImageError, match="too large: 1,000,000,000,000 bytes"):
        decode.read_size(tmp_path / "huge.avif")


@pytest.mark.parametrize("channels, dtype", [(4, np.uint8), (4, np.uint16), (1, np.uint16)])
def test_images_of_many_rows_come_out_as_in_one_piece(channels, dtype, monkeypatch):
    image = encoded.photo(61, 33)
    image = image[..., 0] if channels == 1 else np.dstack([image, image[..., ::-1][..., 0]])
    data = encoded.encode(".png", image.astype(dtype) * (257 if dtype == np.uint16 else 1))
    whole = decode.decode_image(data)
    monkeypatch.setattr(decode, "_BLOCK_PIXELS", 33 * 7)
    np.testing.assert_array_equal(decode.decode_image(data), whole)


def test_the_pixel_limit_can_be_moved(monkeypatch):
    monkeypatch.setattr(decode, "MAX_PIXELS", 16 * 24 - 1)
    with pytest.raises(ImageError, match="24 × 16 pixels by its header, the limit is 383"):
        decode.decode_image(encoded.jpeg(PICTURE))


@pytest.mark.parametrize("read", [decode.read_image, decode.read_size])
def test_what_cannot_be_opened_is_an_image_error(read, tmp_path):
    with pytest.raises(ImageError, match="cannot be opened: No such file"):
        read(tmp_path / "missing.jpg")
    with pytest.raises(ImageError, match="cannot be opened: Is a directory"):
        read(tmp_path)


def test_the_size_is_read_without_decoding(tmp_path, monkeypatch):
    file = tmp_path / "half.jpg"
    data = encoded.jpeg(encoded.photo(96, 128))
    file.write_bytes(data[: len(data) // 2])
    monkeypatch.setattr(cv2, "imdecode", lambda *_: pytest.fail("decoded"))
    assert decode.read_size(file) == (96, 128)


@pytest.mark.parametrize(
    ("shape", "target", "expected"),
    [
        ((801, 1003), 50, (101, 126)),
        ((800, 1000), 51, (200, 250)),
        ((800, 1000), 100, (200, 250)),
        ((800, 1000), 200, (400, 500)),
        ((800, 1000), 201, (800, 1000)),
    ],
)
def test_large_jpegs_are_decoded_smaller_but_not_below_twice_the_target(shape, target, expected):
    data = encoded.jpeg(encoded.photo(*shape))
    image, size = decode.decode_with_size(data, target)
    assert size == shape
    assert image.shape[:2] == expected


def test_a_reduced_decode_gives_nearly_the_same_picture_after_shrinking():
    from gc_net.data.transforms import squash

    data = encoded.jpeg(encoded.photo(1200, 1600), quality=90)
    whole = squash(decode.decode_image(data), 146).astype(int)
    reduced = squash(decode.decode_image(data, target=146), 146).astype(int)
    assert decode.decode_image(data, target=146).shape[0] == 300
    assert np.abs(whole - reduced).mean() < 1
    assert np.abs(whole - reduced).max() <= 8
    np.testing.assert_array_equal(reduced, squash(decode.decode_image(data, target=146), 146))


def test_a_reduced_decode_is_upright_too():
    data = encoded.jpeg_with_exif(encoded.picture(320, 480), 6)
    image, size = decode.decode_with_size(data, target=40)
    assert (size, image.shape[:2]) == ((480, 320), (120, 80))
    small = UPRIGHT[6](encoded.picture(80, 120))
    assert np.abs(image.astype(int) - small).mean() < 4


def test_only_jpegs_are_reduced():
    data = encoded.encode(".png", encoded.photo(320, 480))
    assert decode.decode_image(data, target=20).shape == (320, 480, 3)


def test_a_file_reader_reads_by_index(tmp_path):
    (tmp_path / "a é.png").write_bytes(encoded.encode(".png", PICTURE))
    reader = decode.FileReader(str(tmp_path), np.array(["a é.png".encode()]))
    assert difference(reader(0), PICTURE) == 0
    image, size = reader.reduced(0, 4)
    assert size == (16, 24)
    assert difference(image, PICTURE) == 0


def test_reading_images_needs_no_tensorflow():
    script = "import sys, gc_net.data.decode; print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "False"
