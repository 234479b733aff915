"""Ratios are taken within a round, and what timed itself elsewhere is taken at its word."""

import time

import numpy as np
import pytest

from benchmarks import rounds


def test_ways_take_turns_after_each_was_called_once():
    calls = []
    rounds.in_turn({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 2, calls=2)
    assert "".join(calls) == "ab" + "aabb" * 2


def test_a_ratio_is_the_median_of_the_rounds_ratios():
    wall = {"a": np.array([1.0, 8.0, 3.0]), "b": np.array([1.0, 2.0, 1.0]), "c": np.ones(3)}
    timings = rounds.Timings(wall, wall)
    assert timings.ratio("a", "b") == 3  # of 1, 4 and 3; the medians' ratio would be 3 as well
    assert timings.ratio("a", "b", "c") == 1.5  # of 1/2, 8/3 and 3/2
    assert timings.seconds("a") == 3


def test_sleeping_takes_time_and_no_processor():
    timings = rounds.in_turn({"sleep": lambda: time.sleep(0.02)}, rounds=3)
    assert timings.seconds("sleep") >= 0.02
    assert timings.processor_seconds("sleep") < 0.015


def test_time_of_another_process_is_taken_as_it_is():
    timings = rounds.in_turn({"there": lambda: rounds.Elapsed((7.0, 5.0))}, rounds=2)
    assert timings.seconds("there") == 7
    assert timings.processor_seconds("there") == 5


def test_elapsed_calls_the_function_once():
    calls = []
    wall, processor = rounds.elapsed(lambda: calls.append(time.sleep(0.01)))
    assert len(calls) == 1 and wall >= 0.01 and 0 <= processor < wall


def test_a_table_has_a_cell_for_every_value():
    assert rounds.table(["a", "b"], [[1, "x"]]) == "| a | b |\n| --- | --- |\n| 1 | x |"


def test_memory_that_was_given_back_still_counts_in_the_peak():
    before = rounds.peak_megabytes()
    block = np.ones(2**24)  # 128 MB
    during = rounds.resident_megabytes()
    del block
    assert rounds.peak_megabytes() >= max(before, during - 1)
    assert rounds.peak_megabytes() >= rounds.resident_megabytes() - 1
    assert during == pytest.approx(rounds.resident_megabytes() + 128, abs=30)
