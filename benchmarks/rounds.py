"""Timing several ways of doing the same in turn, so that noise on the machine cancels in ratios."""

import dataclasses
import os
import time

import numpy as np

from gc_net.tables import Markdown


@dataclasses.dataclass(frozen=True)
class Timings:
    """Seconds that each way took in each round.

    Attributes:
        wall: {name: [rounds]} seconds on the clock.
        processor: {name: [rounds]} seconds of all threads together; other work on the machine
            disturbs it less.
    """

    wall: dict[str, np.ndarray]
    processor: dict[str, np.ndarray]

    def seconds(self, name):
        """Return the median over the rounds."""
        return float(np.median(self.wall[name]))

    def processor_seconds(self, name):
        """Return the median over the rounds."""
        return float(np.median(self.processor[name]))

    def ratio(self, name, *others):
        """Return how long a way took, relative to `others` together: median over the rounds."""
        return _ratio(self.wall, name, others)

    def processor_ratio(self, name, *others):
        """Return `ratio` of processor time."""
        return _ratio(self.processor, name, others)


def _ratio(seconds, name, others):
    return float(np.median(seconds[name] / sum(seconds[other] for other in others)))


def in_turn(ways, rounds, calls=1):
    """Call every way once before the clock runs, then time them in turn.

    Args:
        ways: {name: function without arguments}. A function that returns two numbers has timed
            itself, in another process: they are its seconds and processor seconds.
        rounds: How often each has its turn.
        calls: Calls a turn; for what takes less than a few milliseconds.

    Returns:
        `Timings`, of one call each.
    """
    for way in ways.values():
        way()
    clocks = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            start = _clocks()
            for _ in range(calls):
                result = way()
            timed_itself = isinstance(result, Elapsed)
            clocks[name].append(result if timed_itself else (_clocks() - start) / calls)
    columns = {name: np.array(rows).T for name, rows in clocks.items()}  # [2, rounds] each
    return Timings(
        wall={name: column[0] for name, column in columns.items()},
        processor={name: column[1] for name, column in columns.items()},
    )


class Elapsed(tuple):
    """Seconds and processor seconds that something took in another process."""

    __slots__ = ()


def elapsed(function):
    """Call `function` and return its `Elapsed` time."""
    start = _clocks()
    function()
    return Elapsed((_clocks() - start).tolist())


def _clocks():
    return np.array([time.perf_counter(), time.process_time()])


def table(header, rows):
    """Return a Markdown table; numbers are written as they are, so format them first."""
    return Markdown().table(header, [], [[str(cell) for cell in row] for row in rows])


def conditions():
    """Return one line on the machine and how busy it is; it belongs beside every figure."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores, load average {os.getloadavg()[0]:.1f} at the start"


def resident_megabytes():
    """Return the memory this process occupies now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def peak_megabytes():
    """Return the most memory this process has occupied; not its parent's, as `getrusage` may."""
    with open("/proc/self/status", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 2**10
