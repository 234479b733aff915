"""Threads together hold no more pixels than one image may have."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest

from gc_net.data import decode, loading
from gc_net.data.decode import FileReader, decode_image
from gc_net.data.loading import Loader, Unreadable
from gc_net.data.pixels_in_flight import PixelsInFlight
from gc_net.data.splits import Split
from gc_net.data.transforms import center_window
from gc_net.datasets import check
from tests.data import encoded

PIXELS = 40 * 60


class Gauge:
    """Notes how much is in flight, and how much of it there was at most."""

    def __init__(self):
        self.now = self.most = self.images = 0
        self._lock = threading.Lock()

    def add(self, pixels):
        with self._lock:
            self.now += pixels
            self.images += pixels > 0
            self.most = max(self.most, self.now)


@pytest.fixture
def split(tmp_path):
    files = np.array([b"%d.png" % number for number in range(12)])
    for file in files:
        (tmp_path / file.decode()).write_bytes(encoded.encode(".png", encoded.photo(40, 60)))
    labels = np.zeros(len(files), np.int32)
    return Split("train", ("one",), labels, files, str(tmp_path), FileReader(tmp_path, files))


@pytest.fixture
def gauge(monkeypatch):
    """What is held between OpenCV's decoder and the end of the squashing, with room for two."""
    gauge, imdecode, squash = Gauge(), cv2.imdecode, loading.squash

    def decoded(*arguments):
        gauge.add(PIXELS)
        time.sleep(0.01)
        return imdecode(*arguments)

    def squashed(*arguments):
        time.sleep(0.01)
        result = squash(*arguments)
        gauge.add(-PIXELS)
        return result

    monkeypatch.setattr(cv2, "imdecode", decoded)
    monkeypatch.setattr(loading, "squash", squashed)
    monkeypatch.setattr(decode.IN_FLIGHT, "limit", 2 * PIXELS + 1)
    loading._pool.cache_clear()
    monkeypatch.setattr(loading, "_num_threads", lambda: 8)
    yield gauge
    loading._pool.cache_clear()


def test_a_batch_is_read_within_the_bound_whatever_the_number_of_threads(split, gauge):
    loader = Loader(split, 16, 16, None, Unreadable(), len(split))
    _, sizes, readable = loader.load(np.arange(len(split)), lambda index: [center_window(16, 16)])
    assert readable.all() and (sizes == (40, 60)).all()
    assert gauge.images == len(split)
    assert gauge.most == 2 * PIXELS  # side by side, but no more than there is room for


def test_a_dataset_is_checked_within_the_bound(split, monkeypatch):
    gauge, read = Gauge(), cv2.imdecode

    def decoded(*arguments):
        gauge.add(PIXELS)
        time.sleep(0.01)
        image = read(*arguments)
        gauge.add(-PIXELS)
        return image

    monkeypatch.setattr(cv2, "imdecode", decoded)
    monkeypatch.setattr(decode.IN_FLIGHT, "limit", PIXELS)
    sizes, failures = check.measure(split, workers=6)
    assert not failures and (sizes == (40, 60)).all()
    assert gauge.images == len(split) and gauge.most == PIXELS


def test_an_image_beyond_the_bound_is_let_in_alone_and_none_waits_for_ever():
    in_flight = PixelsInFlight(10)
    gauge = Gauge()

    def work(pixels):
        with in_flight.image():
            in_flight.take(pixels)
            gauge.add(pixels)
            time.sleep(0.005)
            gauge.add(-pixels)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, [25, 4, 4, 25, 10, 6, 3, 25] * 3, timeout=60))
    assert gauge.most == 25


def test_what_fails_gives_its_pixels_back_and_a_second_image_takes_the_firsts_place():
    in_flight = PixelsInFlight(10)
    with pytest.raises(ValueError, match="damaged"), in_flight.image():
        in_flight.take(10)
        raise ValueError("damaged")
    with in_flight.image():
        in_flight.take(10)
        with in_flight.image():
            in_flight.take(9)
        in_flight.take(10)
    in_flight.take(99)  # outside of all blocks nobody waits
    with in_flight.image():
        in_flight.take(10)


def test_a_progressive_jpeg_counts_in_full_and_a_plain_one_as_it_is_reduced(monkeypatch):
    taken = []
    monkeypatch.setattr(decode.IN_FLIGHT, "take", taken.append)
    for progressive in (False, True):
        decode_image(encoded.jpeg(encoded.photo(320, 320), progressive=progressive), target=20)
    assert taken == [40 * 40, 320 * 320]
