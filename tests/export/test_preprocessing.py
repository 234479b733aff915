import struct

import cv2
import numpy as np
import pytest
import tensorflow as tf

from gc_net.data import transforms
from gc_net.data.decode import decode_image, decode_with_size
from gc_net.export import preprocessing
from tests.data import encoded
from tests.prediction.models import noise


def encode(image, suffix):
    return cv2.imencode(suffix, image)[1].tobytes()


def with_exif(jpeg, orientation, order):
    """Insert EXIF data with two tags, the second of which is the orientation."""
    entry = struct.Struct(f"{order}HHI4s")
    value = struct.pack(f"{order}HH", orientation, 0)
    entries = entry.pack(0x0100, 4, 1, struct.pack(f"{order}I", 40)) + entry.pack(
        0x0112, 3, 1, value
    )
    mark = b"II" if order == "<" else b"MM"
    tiff = mark + struct.pack(f"{order}HI", 42, 8) + struct.pack(f"{order}H", 2) + entries
    content = b"Exif\x00\x00" + tiff + bytes(4)
    segment = b"\xff\xe1" + struct.pack(">H", len(content) + 2) + content
    return jpeg[:2] + segment + jpeg[2:]


decode = tf.function(preprocessing.decode, input_signature=[tf.TensorSpec([], tf.string)])


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_jpeg_is_turned_upright_as_outside_the_graph(orientation, order):
    data = with_exif(encode(noise(24, 40), ".jpg"), orientation, order)
    expected = decode_image(data).astype("float32")
    found = decode(data).numpy()
    assert found.shape == ((24, 40, 3) if orientation < 5 else (40, 24, 3))
    assert np.abs(found - expected).max() <= 2


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_png_is_turned_upright_as_outside_the_graph(orientation):
    data = encoded.png_with_exif(noise(24, 40), orientation)
    np.testing.assert_array_equal(decode(data), decode_image(data))


def test_what_only_looks_like_an_orientation_is_passed_over():
    jpeg = encode(noise(24, 40), ".jpg")
    comment = b"\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00"
    segment = b"\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment
    assert decode(jpeg[:2] + segment + jpeg[2:]).shape == (24, 40, 3)
    assert decode(with_exif(jpeg, 9, "<")).shape == (24, 40, 3)  # no such orientation


@pytest.mark.parametrize(
    ("suffix", "channels"),
    [(".png", 1), (".png", 3), (".png", 4), (".jpg", 1), (".jpg", 3)],
)
def test_grey_and_transparent_images_become_rgb_as_outside_the_graph(suffix, channels):
    image = noise(20, 30)
    if channels == 1:
        image = image[..., 0]
    elif channels == 4:
        image = np.dstack([image, noise(20, 30, seed=1)[..., 0]])
    data = encode(image, suffix)
    assert np.abs(decode(data).numpy() - decode_image(data)).max() <= (
        2 if suffix == ".jpg" else 0.5
    )


def test_what_is_no_image_is_an_error():
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(b"no image")


@pytest.mark.parametrize(
    "size", [(50, 90), (128, 64), (20, 20), (300, 300), (380, 100), (48, 48), (700, 500), (30, 900)]
)
def test_squashing_in_the_graph_gives_the_pixels_of_squashing_outside(size):
    # With fine detail, on which resizes differ the most.
    random = np.random.default_rng(4)
    image = cv2.add(noise(*size, seed=4), random.integers(0, 90, (*size, 3), dtype=np.uint8))
    expected = transforms.squash(image, 48).astype("float32")
    found = preprocessing.squash(image[None], 48).numpy()[0]
    assert np.abs(found - expected).max() <= 1
    assert np.mean(found != expected) < 0.02  # where OpenCV computes in other steps
    assert np.array_equal(preprocessing.squash(found, 48), found)


@pytest.mark.parametrize("orientation", [1, 6])
@pytest.mark.parametrize("size", [(70, 200), (150, 100), (330, 400), (600, 500)])
def test_large_jpegs_are_decoded_at_the_reduced_size_they_have_outside(size, orientation):
    data = with_exif(encode(noise(*size, seed=1), ".jpg"), orientation, "<")
    expected, full_size = decode_with_size(data, 30)
    found, found_size = preprocessing.decode_with_size(tf.constant(data), target=30)
    assert found.shape == expected.shape
    assert tuple(found_size.numpy()) == tuple(full_size)
    assert np.abs(found.numpy() - expected).max() <= 2


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded(suffix, monkeypatch):
    data = encoded.encode(suffix, encoded.picture(20, 30))
    decode = tf.function(preprocessing.decode)
    monkeypatch.setattr(preprocessing, "MAX_PIXELS", 600)
    assert decode(tf.constant(data)).shape == (20, 30, 3)
    monkeypatch.setattr(preprocessing, "MAX_PIXELS", 599)
    for name in ("decode_png", "decode_jpeg"):  # in the graph, but not to be reached
        monkeypatch.setattr(tf.io, name, lambda *args, **kwargs: reached())
    with pytest.raises(tf.errors.InvalidArgumentError, match="Image 0: too many pixels: 30 x 20"):
        tf.function(preprocessing.decode)(tf.constant(data))


def reached():
    failing = tf.debugging.Assert(False, ["decoded"])
    with tf.control_dependencies([failing]):
        return tf.zeros([1, 1, 3], tf.uint8)


@pytest.mark.parametrize(
    "width, height", [(2**31, 2**31), (2**32 - 1, 2**32 - 1), (0, 5), (2**25, 2)]
)
def test_absurd_sizes_in_a_png_header_are_refused(width, height):
    data = bytearray(encode(noise(20, 30), ".png"))
    data[16:24] = struct.pack(">II", width, height)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{width} x {height}"):
        decode(bytes(data))


OTHERS = {f"animated {kind}": data for kind, data in encoded.ANIMATIONS.items() if kind != "PNG"}
OTHERS |= {
    suffix: encoded.encode(suffix, encoded.picture()) for suffix in (".bmp", ".gif", ".webp")
}
OTHERS |= {"nothing": b"", "a GIF that lies": encoded.LYING_GIF, "text": b"hello", "PN": b"\x89PN"}


@pytest.mark.parametrize("kind", OTHERS)
def test_all_but_jpeg_and_png_is_refused_by_index_and_reaches_no_decoder(kind):
    files = [encode(noise(8, 8), ".png"), encode(noise(8, 8), ".jpg"), OTHERS[kind]]
    check = tf.function(preprocessing.checked_files)
    assert check(tf.constant(files[:2])).shape == 2
    with pytest.raises(tf.errors.InvalidArgumentError, match="Image 2: neither JPEG nor PNG"):
        check(tf.constant(files))
    with pytest.raises(tf.errors.InvalidArgumentError, match="neither JPEG nor PNG"):
        decode(OTHERS[kind])


def test_of_an_animated_png_the_first_picture_is_taken():
    np.testing.assert_array_equal(decode(encoded.ANIMATIONS["PNG"]), encoded.picture())


def test_no_general_decoder_is_in_the_graph():
    graph = decode.get_concrete_function().graph.as_graph_def()
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    decoders = {node.op for node in nodes if node.op.startswith("Decode")}
    assert decoders == {"DecodeJpeg", "DecodePng", "DecodeRaw"}


def test_a_batch_of_too_many_images_or_pixels_is_refused_by_the_limit(monkeypatch):
    files = tf.constant([encode(noise(8, 8), ".png")] * 3)
    images = tf.zeros([3, 8, 8, 3])
    for limit, value in (("MAX_IMAGES", 2), ("MAX_BATCH_PIXELS", 191)):
        with monkeypatch.context() as patch:
            patch.setattr(preprocessing, limit, value)
            for check, batch in (
                (preprocessing.checked_files, files),
                (preprocessing.checked_batch, images),
            ):
                with pytest.raises(tf.errors.InvalidArgumentError, match=f"the limit is {value}"):
                    tf.function(check)(batch)


def test_a_jpeg_of_thousands_of_scans_is_refused(monkeypatch):
    data = encoded.jpeg(noise(20, 30), progressive=True)
    monkeypatch.setattr(preprocessing, "_MAX_LARGEST_SCANS", 1)
    monkeypatch.setattr(preprocessing, "MAX_PIXELS", 600)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"waste time: \d+ scans"):
        tf.function(preprocessing.decode)(tf.constant(data))
