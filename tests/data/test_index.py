import concurrent.futures
import multiprocessing
import os
import time
import tracemalloc

import numpy as np
import pytest

from gc_net.data import index
from gc_net.data.index import cache_home, list_images
from gc_net.data.listing import list_folder
from gc_net.data.splits import DataError
from tests.datasets.samples import write_text

EXTENSIONS = frozenset({".jpg"})
LONG_AGO = 1_500_000_000


def age(root, seconds=LONG_AGO):
    """Give folders old times, as data have that were not written a moment ago."""
    for folder, _, _ in os.walk(root):
        os.utime(folder, (seconds, seconds))


@pytest.fixture
def tree(tmp_path, monkeypatch):
    # Changing a file's times is itself stamped with the present, which cannot be set back.
    monkeypatch.setattr(index, "_settled", lambda listing: True)
    root = tmp_path / "data"
    for file in ("b/2.jpg", "b/10.jpg", "a/x/1.JPG", "a/y.jpg", "a/notes.txt", "top.jpg"):
        write_text(root / file, "")
    age(root)
    return root


def list_cached(tree):
    return list_images(tree, cache_dir=tree.parent / "cache", min_files=0)


def index_file(tree):
    (path,) = (tree.parent / "cache" / "index").iterdir()
    return path


@pytest.fixture
def scans(monkeypatch):
    """Count how often folders are really read."""
    calls = []
    monkeypatch.setattr(index, "list_folder", lambda *a: calls.append(a) or list_folder(*a))
    return calls


def same(first, second):
    return all(
        np.array_equal(getattr(first, name), getattr(second, name))
        for name in first.__dataclass_fields__
    )


def test_files_are_sorted_by_folder_and_name(tree):
    listing = list_folder(tree, EXTENSIONS)
    assert listing.folders == ["", "a", "a/x", "b"]
    assert listing.counts.tolist() == [1, 1, 1, 2]
    assert listing.files.tolist() == [b"top.jpg", b"a/y.jpg", b"a/x/1.JPG", b"b/10.jpg", b"b/2.jpg"]
    assert listing.others == {".txt": 1}


def test_an_empty_folder_gives_an_empty_listing(tmp_path):
    listing = list_folder(tmp_path, EXTENSIONS)
    assert len(listing.files) == 0 and listing.folders == [""]


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"absent/? cannot be read: No such file"):
        list_folder(tmp_path / "absent", EXTENSIONS)


def test_dangling_links_are_listed_and_pipes_are_not(tmp_path):
    (tmp_path / "dangling.jpg").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "linked_pipe.jpg").symlink_to(tmp_path / "pipe.jpg")
    assert list_folder(tmp_path, EXTENSIONS).files.tolist() == [b"dangling.jpg"]


def test_the_index_gives_what_the_folder_gave(tree, scans):
    first = list_cached(tree)
    second = list_cached(tree)
    assert len(scans) == 1
    assert same(first, second)
    assert second.files.dtype == first.files.dtype


@pytest.mark.parametrize("clock", ["forward", "backward", "still"])
@pytest.mark.parametrize(
    "change",
    [
        lambda tree: write_text(tree / "a" / "new.jpg", ""),
        lambda tree: (tree / "b" / "2.jpg").unlink(),
        lambda tree: (tree / "b" / "2.jpg").rename(tree / "b" / "3.jpg"),
        lambda tree: write_text(tree / "new" / "folder" / "z.jpg", ""),
        lambda tree: (tree / "a").rename(tree / "c"),
    ],
)
def test_any_change_is_noticed_whatever_the_clock_says(tree, change, clock):
    list_cached(tree)
    change(tree)
    shift = {"forward": 3600, "backward": -3600, "still": 0}[clock]
    age(tree, LONG_AGO + shift)
    assert same(list_cached(tree), list_folder(tree, index.IMAGE_EXTENSIONS))


@pytest.mark.parametrize("position", ["magic", "digest", "header", "stamps", "names", "last"])
def test_a_damaged_index_is_recognised_and_built_again(tree, scans, position):
    expected = list_cached(tree)
    path = index_file(tree)
    data = bytearray(path.read_bytes())
    place = {"magic": 0, "digest": 20, "header": 60, "stamps": -100, "names": -20, "last": -1}
    data[place[position]] ^= 1
    path.write_bytes(data)
    with pytest.warns(UserWarning, match="is damaged; it is built again"):
        assert same(list_cached(tree), expected)
    assert same(list_cached(tree), expected)
    assert len(scans) == 2


@pytest.mark.parametrize("keep", [0, 10, 40, 100, -1])
def test_a_truncated_index_is_recognised(tree, keep):
    expected = list_cached(tree)
    path = index_file(tree)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.warns(UserWarning, match="is damaged"):
        assert same(list_cached(tree), expected)


def test_folders_of_the_same_content_have_an_index_each(tree, scans):
    other = tree.parent / "other"
    write_text(other / "q.jpg", "")
    list_cached(tree)
    assert list_images(other, tree.parent / "cache", min_files=0).files.tolist() == [b"q.jpg"]
    assert len(scans) == 2


def test_an_index_under_a_foreign_name_is_not_believed(tree, scans):
    list_cached(tree)
    other = tree.parent / "other"
    write_text(other / "q.jpg", "")
    list_images(other, tree.parent / "cache", min_files=0)
    first, second = sorted((tree.parent / "cache" / "index").iterdir())
    first.write_bytes(second.read_bytes())
    assert len(list_cached(tree).files) == 5
    assert list_images(other, tree.parent / "cache", min_files=0).files.tolist() == [b"q.jpg"]


def test_small_folders_leave_no_index(tree):
    list_images(tree, cache_dir=tree.parent / "cache")
    assert not (tree.parent / "cache").exists()


def test_a_folder_that_was_changed_a_moment_ago_leaves_no_index(tree, monkeypatch):
    monkeypatch.undo()
    write_text(tree / "b" / "new.jpg", "")
    list_cached(tree)
    assert not (tree.parent / "cache").exists()
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 60_000_000_000)
    list_cached(tree)
    assert index_file(tree).exists()


def test_a_cache_that_cannot_be_written_is_a_warning(tree):
    write_text(tree.parent / "cache", "a file where the folder should be")
    with pytest.warns(UserWarning, match=r"could not be written.*XDG_CACHE_HOME"):
        assert len(list_cached(tree).files) == 5


def test_a_failed_write_leaves_nothing_behind(tree, monkeypatch):
    def fail(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.warns(UserWarning, match="No space left"):
        list_cached(tree)
    assert list((tree.parent / "cache" / "index").iterdir()) == []


def test_processes_at_once_see_whole_indexes(tree):
    expected = list_cached(tree)
    index_file(tree).unlink()
    context = multiprocessing.get_context("spawn")  # other tests may have started threads
    with concurrent.futures.ProcessPoolExecutor(2, context) as pool:
        listings = list(pool.map(_list_and_touch, [(tree, n) for n in range(40)]))
    assert all(np.array_equal(listing.files, expected.files) for listing in listings)
    assert [path.suffix for path in (tree.parent / "cache" / "index").iterdir()] == [".index"]


def _list_and_touch(task):
    tree, number = task
    index._settled = lambda listing: True
    os.utime(tree / "a", (number, number))  # so that the other process has to write again
    return list_cached(tree)


def test_the_cache_lies_where_the_user_wants_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_home() == str(tmp_path / "gc_net")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_home() == "/home/someone/.cache/gc_net"


def test_memory_grows_with_the_names_alone(tmp_path):
    for folder in range(20):
        (tmp_path / f"n{folder:03d}").mkdir()
        for number in range(200):
            (tmp_path / f"n{folder:03d}" / f"{number}.jpg").touch()
    tracemalloc.start()
    listing = list_folder(tmp_path, EXTENSIONS)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(listing.files) == 4000
    # A bytes object a file, with its place in a list, would be another 50 bytes each.
    assert held < listing.files.nbytes + 20 * len(listing.files)
