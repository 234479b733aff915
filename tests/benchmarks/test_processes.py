"""Benchmarks that start processes of their own, and the tool that starts all of them."""

import inspect
import os
import subprocess
import sys

import pytest

import benchmarks.__main__
from benchmarks import BENCHMARKS, allocator, size
from benchmarks import help as help_benchmark
from gc_net.data.decode import read_image


def test_every_tool_is_a_program_with_a_help_text():
    names = help_benchmark.all_tools()
    assert "train" in names and "config_flags" not in names  # which has no command of its own


def test_help_is_timed_with_the_processor_time_of_the_tool():
    timings = help_benchmark.measure(rounds=1, names=["predict"])
    assert 0 < timings.processor_seconds("predict") <= 2 * timings.seconds("predict")


@pytest.mark.slow
def test_every_stage_costs_time_and_memory_and_is_plotted(tmp_path):
    costs = [cost for count in (40, 80) for cost in size.measure(count, list(size.STAGES))]
    assert {(cost.stage, cost.num_images) for cost in costs} == {
        (stage, count) for stage in size.STAGES for count in (40, 80)
    }
    assert all(cost.seconds > 0 and cost.megabytes > 10 for cost in costs)
    size.write_plot(tmp_path / "size.png", costs)
    assert read_image(tmp_path / "size.png").shape[1] > 900
    with pytest.raises(ValueError, match="A plot needs two sizes"):
        size.write_plot(tmp_path / "other.png", costs[:1])


def test_listing_is_measured_in_a_process_without_tensorflow():
    (cost,) = size.measure(30, ["listing"])
    assert cost.num_images == 30 and cost.seconds > 0
    assert 10 < cost.megabytes < 300  # TensorFlow alone takes more


def test_an_unknown_stage_is_refused():
    with pytest.raises(ValueError, match=r"Unknown stage 'lunch'\. Known ones: listing, input"):
        size.measure(10, ["lunch"])


@pytest.mark.slow
def test_both_allocators_are_timed_in_turn(monkeypatch):
    monkeypatch.setenv(allocator.VARIABLE, "false")
    timings, peaks = allocator.measure("tiny", 32, batch_size=2, rounds=2)
    assert set(timings.wall) == {
        f"{what}, {name}" for what in ("step", "forward") for name in allocator.ALLOCATORS
    }
    assert all(megabytes > 100 for megabytes in peaks.values())
    assert os.environ[allocator.VARIABLE] == "false"  # as it was


def run_tool(*arguments):
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_tool_prints_markdown_and_passes_settings_on():
    done = run_tool("--what=size", "--sizes=20", "--stages=listing")
    assert done.returncode == 0, done.stderr
    assert "| 20 | listing |" in done.stdout


def test_the_tool_refuses_settings_that_a_benchmark_does_not_have():
    done = run_tool("--what=help", "--batch_size=3")
    assert done.returncode != 0
    assert "--batch_size means nothing to --what=help, which takes: --rounds" in done.stderr


@pytest.mark.parametrize("sizes", ["abc", "32,0"])
def test_the_tool_refuses_sizes_that_are_no_whole_numbers(sizes):
    done = run_tool("--what=size", f"--sizes={sizes}")
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert f"between them. Received: {sizes}" in done.stderr


@pytest.mark.parametrize("name", BENCHMARKS.names)
def test_every_benchmark_takes_settings_that_are_flags_of_the_tool(name):
    settings = inspect.signature(BENCHMARKS.get(name)).parameters
    assert set(settings) <= set(benchmarks.__main__.SETTINGS)
