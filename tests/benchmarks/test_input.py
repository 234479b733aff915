"""The input benchmark runs on any folder and compares like with like."""

import pytest

from benchmarks import input as benchmark
from gc_net.data.splits import DataError
from tests.data import sources


def test_every_way_is_measured_on_all_images(tmp_path):
    split = sources.file_split(tmp_path)
    measured = benchmark.measure_input(split, image_sizes=(28,), batch_size=3, rounds=1)
    ways = [benchmark.KERAS, benchmark.SAME, benchmark.COLD, benchmark.FIRST, benchmark.SECOND]
    assert [item.name for item in measured] == ways
    assert measured[0].ratio == 1
    assert all(item.images_per_second > 0 and item.cpu_ms > 0 for item in measured)
    assert benchmark.as_table(measured).count("\n") == 6


def test_images_that_cannot_be_read_stop_the_measurement(tmp_path):
    split = sources.file_split(tmp_path)
    (tmp_path / split.file(2)).write_bytes(b"no image")
    with pytest.raises(Exception, match=r"Read 7 of 8 images|decode"):
        benchmark.measure_input(split, image_sizes=(28,), rounds=1)


def test_drawn_images_are_no_files_to_measure():
    with pytest.raises(DataError, match=r"There is no file .*drawn-0"):
        benchmark.measure_input(sources.drawn_split()[0], rounds=1)
