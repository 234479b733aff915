"""How long every tool takes to say what it does: `--help` must not wait for TensorFlow."""

import functools
import resource
import subprocess
import sys
import time

from benchmarks.rounds import Elapsed, conditions, in_turn, table
from tools.__main__ import NAMES


def report(*, rounds=5):
    """Measure the tools in turn.

    Args:
        rounds: How often each is started.
    """
    yield f"{conditions()}, medians of {rounds} rounds"
    timings = measure(rounds)
    rows = [
        [
            f"`gc-net {tool}`",
            f"{timings.seconds(tool):.2f}",
            f"{timings.processor_seconds(tool):.2f}",
        ]
        for tool in timings.wall
    ]
    yield table(["tool", "seconds", "processor seconds"], rows)


def measure(rounds, names=None):
    """Return the `Timings` of `--help`.

    Args:
        names: Tools; all of them by default.
    """
    return in_turn(
        {name: functools.partial(_timed_help, name) for name in names or all_tools()}, rounds
    )


def all_tools():
    """Return the names of the modules of `tools` that are programs."""
    return sorted(NAMES)


def _help(name):
    command = [sys.executable, "-m", f"tools.{name}", "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _timed_help(name):
    start, processor_start = time.perf_counter(), _children_seconds()
    _help(name)
    return Elapsed((time.perf_counter() - start, _children_seconds() - processor_start))


def _children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
