"""Measurements that can be repeated; `tools.benchmark` prints them.

A benchmark is one file with a function `report(**settings)` that yields Markdown, block by block,
as results come in. Its keyword arguments are its settings, and the flags of the tool set them.
"""

from gc_net.registry import Registry

BENCHMARKS = Registry(
    "benchmark",
    {
        "step": "gc_net.benchmarks.step:report",
        "pytorch": "gc_net.benchmarks.pytorch:report",
        "depthwise": "gc_net.benchmarks.depthwise:report",
        "allocator": "gc_net.benchmarks.allocator:report",
        "render": "gc_net.benchmarks.render:report",
        "input": "gc_net.benchmarks.input:report",
        "predict": "gc_net.benchmarks.predict:report",
        "memory": "gc_net.benchmarks.memory:report",
        "tflite": "gc_net.benchmarks.tflite:report",
        "size": "gc_net.benchmarks.size:report",
        "help": "gc_net.benchmarks.help:report",
    },
)


def get(name):
    """Return the `report` function of the benchmark called `name`."""
    return BENCHMARKS.get(name)
