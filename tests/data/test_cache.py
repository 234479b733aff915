"""The decoded-image cache: filled once, never torn, never stale, and no obstacle when it fails."""

import concurrent.futures
import errno
import logging
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from gc_net.data import cache as cache_module
from gc_net.data.cache import ImageCache
from gc_net.data.loading import Loader, Unreadable
from gc_net.data.splits import DataError
from gc_net.data.transforms import squash
from tests.data import encoded, sources

SIZE = 32


def loader(split, folder):
    return Loader(split, SIZE, SIZE, ImageCache(folder, split, SIZE), Unreadable(), len(split))


def read_all(split, folder):
    source = loader(split, folder)
    return [source.squashed(index) for index in range(len(split))]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "photos").mkdir()
    return sources.file_split(tmp_path / "photos")


@pytest.fixture(params=["files", "drawn"])
def split(request):
    return (
        request.getfixturevalue("files") if request.param == "files" else sources.drawn_split()[0]
    )


def test_the_second_reading_decodes_nothing_and_gives_the_same(split, tmp_path):
    split, reads = sources.counted(split)
    source = loader(split, tmp_path / "cache")
    reads.clear()
    first = [source.squashed(index) for index in range(len(split))]
    assert sorted(reads) == list(range(len(split)))
    reads.clear()
    second = [source.squashed(index) for index in range(len(split))]
    assert reads == []
    for index, ((image, size), (stored, stored_size)) in enumerate(zip(first, second, strict=True)):
        original = split.read(index)
        assert tuple(size) == tuple(stored_size) == original.shape[:2]
        np.testing.assert_array_equal(image, squash(original, SIZE))
        np.testing.assert_array_equal(stored, image)


def test_a_later_process_finds_what_an_earlier_one_stored(files, tmp_path):
    read_all(files, tmp_path / "cache")
    files, reads = sources.counted(files)
    assert ImageCache(tmp_path / "cache", files, SIZE).filled() == len(files)
    read_all(files, tmp_path / "cache")
    assert reads == []


def test_a_partly_filled_cache_is_completed(files, tmp_path):
    source = loader(files, tmp_path / "cache")
    for index in (1, 4):
        source.squashed(index)
    files, reads = sources.counted(files)
    read_all(files, tmp_path / "cache")
    assert sorted(reads) == [0, 2, 3, 5, 6, 7]


def test_an_edited_file_is_read_again(files, tmp_path):
    read_all(files, tmp_path / "cache")
    changed = encoded.photo(90, 50, seed=99)
    path = pathlib.Path(files.root, files.file(3))
    path.write_bytes(encoded.jpeg(changed))
    files, reads = sources.counted(files)
    image, size = read_all(files, tmp_path / "cache")[3]
    assert reads == [3]
    assert size == (90, 50)
    np.testing.assert_array_equal(image, squash(files.read(3), SIZE))


@pytest.mark.parametrize("file", ["images.bin", "records.bin"])
def test_damaged_bytes_are_noticed_and_the_image_redone(file, files, tmp_path, caplog):
    expected = read_all(files, tmp_path / "cache")
    path = pathlib.Path(ImageCache(tmp_path / "cache", files, SIZE).path, file)
    data = bytearray(path.read_bytes())
    data[5 * len(data) // len(files) + 6] ^= 0x40
    path.write_bytes(data)
    files, reads = sources.counted(files)
    again = read_all(files, tmp_path / "cache")
    assert reads == [5]
    assert "holds damaged images" in caplog.text
    for (image, size), (other, other_size) in zip(expected, again, strict=True):
        np.testing.assert_array_equal(image, other)
        assert size == other_size
    reads.clear()
    read_all(files, tmp_path / "cache")
    assert reads == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "meta.json").write_text("{"), "it is damaged"),
        (lambda path: (path / "meta.json").write_text('{"format": 0}'), "describes another cache"),
        (lambda path: (path / "meta.json").unlink(), "it is damaged"),
        (lambda path: os.truncate(path / "images.bin", 100), "images.bin has 100 bytes"),
        (lambda path: os.truncate(path / "records.bin", 0), "records.bin has 0 bytes"),
        (lambda path: (path / "images.bin").unlink(), "it is damaged"),
    ],
)
def test_a_damaged_or_foreign_cache_is_rebuilt_with_a_warning(
    damage, message, files, tmp_path, caplog
):
    read_all(files, tmp_path / "cache")
    damage(pathlib.Path(ImageCache(tmp_path / "cache", files, SIZE).path))
    files, reads = sources.counted(files)
    read_all(files, tmp_path / "cache")
    assert sorted(reads) == list(range(len(files)))
    assert "is rebuilt" in caplog.text
    assert message in caplog.text
    left = [name for name in os.listdir(tmp_path / "cache") if name != ".lock"]
    assert len(left) == 1  # nothing temporary


def test_other_images_sizes_and_decoders_have_caches_of_their_own(files, tmp_path, monkeypatch):
    paths = {ImageCache(tmp_path / "cache", files, SIZE).path}
    paths.add(ImageCache(tmp_path / "cache", files, SIZE + 1).path)
    paths.add(ImageCache(tmp_path / "cache", sources.drawn_split(8)[0], SIZE).path)
    paths.add(ImageCache(tmp_path / "cache", sources.drawn_split(8, height=41)[0], SIZE).path)
    monkeypatch.setattr(cache_module, "DECODER_VERSION", "another")
    paths.add(ImageCache(tmp_path / "cache", files, SIZE).path)
    assert len(paths) == 5
    monkeypatch.undo()
    assert ImageCache(tmp_path / "cache", files, SIZE).path in paths


def test_a_full_disk_keeps_what_fits_with_one_warning(files, tmp_path, monkeypatch, caplog):
    written = []

    def write(descriptor, data, offset):
        if len(written) >= 6:  # three images and their records
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(offset)
        return real_write(descriptor, data, offset)

    real_write = os.pwrite
    monkeypatch.setattr(os, "pwrite", write)
    source = loader(files, tmp_path / "cache")
    for _ in range(2):
        for index in range(len(files)):
            image, _ = source.squashed(index)
            np.testing.assert_array_equal(image, squash(files.read(index), SIZE))
    assert source.cache.filled() == 3
    assert caplog.text.count("No space left on device") == 1


def test_a_disk_found_full_by_another_thread_stops_no_write_under_way(files, tmp_path, monkeypatch):
    cache = ImageCache(tmp_path / "cache", files, SIZE)
    real_checksum = cache_module._checksum

    def meanwhile(*args):
        cache._images_file = None  # what the other thread does
        return real_checksum(*args)

    monkeypatch.setattr(cache_module, "_checksum", meanwhile)
    cache.put(0, squash(files.read(0), SIZE), files.read(0).shape[:2])
    assert cache.filled() == 1


def test_a_cache_may_be_read_by_whom_the_umask_allows(files, tmp_path):
    before = os.umask(0o022)
    try:
        path = ImageCache(tmp_path / "cache", files, SIZE).path
    finally:
        os.umask(before)
    assert os.stat(path).st_mode & 0o777 == 0o755


def test_a_short_write_never_counts_as_stored(files, tmp_path, monkeypatch, caplog):
    real_write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: real_write(file, data[:100], at))
    source = loader(files, tmp_path / "cache")
    source.squashed(0)
    assert source.cache.filled() == 0
    assert "the disk is full" in caplog.text


def test_too_little_space_is_said_beforehand(files, tmp_path, monkeypatch, caplog):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(cache_module.shutil, "disk_usage", lambda path: usage)
    ImageCache(tmp_path / "cache", files, SIZE)
    assert "0.0 GB are free. It will hold what fits" in caplog.text


def test_a_folder_that_cannot_be_written_is_a_clear_error(files, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(DataError, match=r"image cache cannot be written.*another folder"):
        ImageCache(tmp_path / "taken", files, SIZE)


def test_space_is_taken_only_by_what_is_stored(tmp_path):
    split, _ = sources.drawn_split(50)
    cache = ImageCache(tmp_path / "cache", split, 512)
    status = os.stat(os.path.join(cache.path, "images.bin"))
    assert status.st_size == 50 * 512 * 512 * 3
    assert status.st_blocks * 512 < 100_000


FILL_FOREVER = """
import pathlib, sys
sys.path.insert(0, {checkout!r})
from gc_net.data.cache import ImageCache
from tests.data import sources
import numpy as np
split, _ = sources.drawn_split(20)
cache = ImageCache({folder!r}, split, 200)
print("ready", flush=True)
while True:
    for index in range(20):
        cache.put(index, np.full((200, 200, 3), index, np.uint8), (40, 60))
"""


def test_a_killed_process_leaves_no_torn_image(tmp_path, caplog):
    """Kill a process that writes without pause; what counts as stored must be whole."""
    caplog.set_level(logging.ERROR)
    script = FILL_FOREVER.format(
        checkout=str(pathlib.Path(__file__).parents[2]), folder=str(tmp_path / "cache")
    )
    split, _ = sources.drawn_split(20)
    stored = 0
    for attempt in range(3):
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.01 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        cache = ImageCache(tmp_path / "cache", split, 200)
        for index in range(20):
            found = cache.get(index)
            if found is not None:
                stored += 1
                assert (found[0] == index).all()
                assert found[1] == (40, 60)
    assert stored > 0


def test_left_overs_of_killed_processes_are_cleared_by_the_next_that_makes_a_cache(files, tmp_path):
    for name in (".new-1", ".old-2"):
        (tmp_path / "caches" / name).mkdir(parents=True)
        (tmp_path / "caches" / name / "images.bin").write_bytes(b"x")
    cache = ImageCache(tmp_path / "caches", files, 16)
    left = {path.name for path in (tmp_path / "caches").iterdir()}
    assert left == {".lock", os.path.basename(cache.path)}


def test_many_that_find_one_damaged_cache_rebuild_it_once(files, tmp_path, caplog):
    with open(os.path.join(ImageCache(tmp_path, files, 16).path, "meta.json"), "w") as file:
        file.write("{")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        caches = list(pool.map(lambda _: ImageCache(tmp_path, files, 16), range(8)))
    assert caplog.text.count("is rebuilt") == 1
    image = np.full((16, 16, 3), 7, np.uint8)
    caches[0].put(1, image, (3, 4))
    for cache in caches:  # all have the same one
        np.testing.assert_array_equal(cache.get(1)[0], image)


def test_a_cache_that_is_cut_off_while_it_is_open_is_read_no_further(files, tmp_path):
    cache = ImageCache(tmp_path, files, 16)
    cache.put(1, np.zeros((16, 16, 3), np.uint8), (3, 4))
    assert cache.get(1) is not None and cache.filled() == 1
    os.truncate(os.path.join(cache.path, "images.bin"), 10)  # through a memory map: a Bus error
    assert cache.get(1) is None
    os.truncate(os.path.join(cache.path, "records.bin"), 0)
    assert cache.get(1) is None and cache.filled() == 0
