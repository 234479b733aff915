import functools
import itertools
import struct

import numpy as np
import pytest
import tensorflow as tf

from gc_net.data.decode import decode_image
from gc_net.data.loading import Unreadable
from gc_net.export import preprocessing
from gc_net.export.saved_model import export_saved_model
from gc_net.localizer import load
from gc_net.serving import Client, ServerError
from gc_net.serving.transports import BadRequest
from tests.data import encoded
from tests.models import localizer_of
from tests.prediction.models import CLASS_NAMES, encode, noise, varied_model
from tests.serving.servers import grpc_server, rest_server

SERVERS = {"grpc": grpc_server, "rest": rest_server}
PNG = encoded.encode(".png", encoded.picture())
# What each file is, and whether it is sent as it is.
FILES = {
    "JPEG": (encoded.jpeg(encoded.picture()), True),
    "turned JPEG": (encoded.jpeg_with_exif(encoded.picture(), 6), True),
    "CMYK JPEG": (encoded.CMYK_JPEG, True),
    "PNG": (PNG, True),
    "turned PNG": (encoded.png_with_exif(encoded.picture(), 6), False),
    "PNG with a transparent colour": (
        PNG[:33] + encoded.png_chunk(b"tRNS", struct.pack(">3H", *encoded.RED)) + PNG[33:],
        False,
    ),
    "palette BMP": (encoded.PALETTE_BMP, False),
    "padded BMP": (encoded.PADDED_BMP, False),
    "GIF": (encoded.ANIMATED_GIF, False),
    "transparent GIF": (encoded.CLEAR_GIF, False),
    "WebP": (encoded.webp(encoded.picture()), False),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A function that gives, by shape, a model and its export, loaded; each is made once."""

    @functools.cache
    def make(shape):
        folder = tmp_path_factory.mktemp(shape)
        localizer_of(varied_model(shape), CLASS_NAMES).save(folder / "model")
        path, _ = export_saved_model(folder / "model", folder / "birds")
        return load(folder / "model"), tf.saved_model.load(path)

    return make


@pytest.fixture(
    scope="module",
    params=itertools.product(SERVERS, ["rotated_ellipse", "rotated_rectangle"]),
    ids="-".join,
)
def server(request, exported):
    kind, shape = request.param
    localizer, served = exported(shape)
    with SERVERS[kind]("birds", served) as (address, service):
        yield address, service, localizer


def assert_same_shape(prediction, expected):
    assert prediction.size == expected.size
    assert prediction.box_xyxy == pytest.approx(expected.box_xyxy, abs=0.01)
    if expected.ellipse is None:
        assert np.allclose(prediction.corners, expected.corners, atol=0.01)
    else:
        assert prediction.ellipse.center == pytest.approx(expected.ellipse.center, abs=0.01)
        assert prediction.ellipse.axes == pytest.approx(expected.ellipse.axes, abs=0.01)
        turn = (prediction.ellipse.angle - expected.ellipse.angle) / np.pi
        assert turn == pytest.approx(round(turn), abs=0.01)


def test_a_served_model_answers_as_the_loaded_one(server, tmp_path):
    address, service, localizer = server
    path = tmp_path / "ä b.png"
    path.write_bytes(encode(noise(32, 32, 2)))
    images = [noise(32, 32, 1), path, encode(noise(32, 32, 3)), encode(noise(32, 32, 4), ".webp")]
    service.batches.clear()
    with Client(address, "birds") as client:
        found = client.predict(images, batch_size=3)
    assert service.batches == [3, 1]
    for prediction, expected in zip(found, localizer.predict(images), strict=True):
        assert_same_shape(prediction, expected)
        assert prediction.shape == expected.shape
        assert prediction.coefficients == pytest.approx(expected.coefficients, abs=1e-4)
        assert prediction.confidence == pytest.approx(expected.confidence, abs=1e-4)
        assert [score[:2] for score in prediction.classes] == [s[:2] for s in expected.classes]
        assert prediction.class_probability == pytest.approx(expected.class_probability, abs=1e-4)


@pytest.mark.parametrize("kind", FILES)
def test_the_server_decodes_the_pixels_that_a_loaded_model_sees(kind, monkeypatch):
    data, as_it_is = FILES[kind]
    sent = []

    def answer(files):
        sent.extend(files)
        raise ServerError("no more is needed")

    with Client("http://127.0.0.1:9", "birds") as client, pytest.raises(ServerError):
        monkeypatch.setattr(client.transport, "predict", answer)
        client.predict([data])
    assert (sent == [data]) == as_it_is
    found, expected = preprocessing.decode(tf.constant(sent[0])).numpy(), decode_image(data)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= (2 if "JPEG" in kind else 0)


def test_an_image_that_is_not_square_comes_back_in_its_own_pixels(server):
    address, _, localizer = server
    image = noise(64, 128, 5)
    # Resizing in the graph differs a little from that outside, but for images of one colour.
    colors = np.random.default_rng(0).integers(0, 256, (4, 3), dtype=np.uint8)
    sizes = [(32, 96), (96, 32)] * 2
    exact = [np.tile(color, (*size, 1)) for size, color in zip(sizes, colors, strict=True)]
    with Client(address, "birds") as client:
        (found,) = client.predict(image)
        shapes = client.predict(exact)
    (expected,) = localizer.predict(image)
    assert found.size == (64, 128)
    assert found.box_xyxy == pytest.approx(expected.box_xyxy, abs=4)
    assert [shape.size for shape in shapes] == sizes
    for shape, expected in zip(shapes, localizer.predict(exact), strict=True):
        assert_same_shape(shape, expected)


def test_a_bad_image_fails_no_other_and_is_reported_by_its_index(server, tmp_path):
    address, _, _ = server
    # Its header is sound, so that only decoding finds out.
    cut = encode(noise(60, 60))[:200]
    images = [noise(32, 32, seed) for seed in range(5)]
    images[1], images[3] = cut, tmp_path / "missing.jpg"
    unreadable = Unreadable()
    with Client(address, "birds") as client:
        found = client.predict(images, unreadable=unreadable)
        alone = client.predict([images[4]])
    assert [prediction is None for prediction in found] == [False, True, False, True, False]
    reasons = dict(unreadable)
    assert set(reasons) == {"images[1]", str(tmp_path / "missing.jpg")}
    assert "truncated or damaged" in reasons["images[1]"]
    assert found[4].box_xyxy == pytest.approx(alone[0].box_xyxy, abs=1e-3)


def test_a_sound_image_that_was_refused_for_anothers_sake_is_sent_again(server, monkeypatch):
    address, _, _ = server
    with Client(address, "birds") as client:
        (expected,) = client.predict(noise(32, 32))
        predict = client.transport.predict
        refusals = iter(range(10))

        def refused_twice(files):
            if next(refusals) < 2:
                raise BadRequest("another client's image")
            return predict(files)

        monkeypatch.setattr(client.transport, "predict", refused_twice)
        (found,) = client.predict(noise(32, 32))
        assert found.box_xyxy == pytest.approx(expected.box_xyxy, abs=1e-3)

        def always_refused(files):
            raise BadRequest("no such signature")

        monkeypatch.setattr(client.transport, "predict", always_refused)
        unreadable = Unreadable()
        assert client.predict([noise(8, 8)], unreadable=unreadable) == [None]
        assert dict(unreadable) == {"images[0]": "refused by the server: no such signature"}


def test_a_request_that_is_too_large_is_halved_down_to_the_image_that_is_reported(exported):
    _, served = exported("rotated_ellipse")
    images = [noise(32, 32, seed) for seed in range(4)]
    images[2] = np.random.default_rng(0).integers(0, 256, (90, 90, 3), dtype=np.uint8)
    sizes = [len(encode(image)) for image in images]
    with rest_server("birds", served) as (address, service), Client(address, "birds") as client:
        expected = client.predict(images)
        service.batches.clear()
        # Two of the small ones, in base64 and with what is around them, but not the large one.
        service.max_bytes = 4 * (sizes[0] + sizes[1]) // 3 + 300
        assert sizes[2] > service.max_bytes
        unreadable = Unreadable()
        found = client.predict(images, unreadable=unreadable)
    assert service.batches == [2, 1]
    assert dict(unreadable) == {"images[2]": "refused by the server: too large"}
    for index in (0, 1, 3):
        assert found[index].box_xyxy == pytest.approx(expected[index].box_xyxy, abs=1e-3)
    assert found[2] is None


def test_a_model_that_is_not_served_is_an_error(server):
    with Client(server[0], "cats") as client, pytest.raises(ServerError, match=r"cats|NOT_FOUND"):
        client.predict(noise(8, 8))


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "127.0.0.1:9"])
def test_a_server_that_does_not_answer_is_an_error(address):
    with Client(address, "birds", timeout=3) as client, pytest.raises(ServerError, match="9"):
        client.predict(noise(8, 8))
