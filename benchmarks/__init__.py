"""Measurements that can be repeated; `python -m benchmarks` prints them.

A benchmark is one file with a function `report(**settings)` that yields Markdown, block by block,
as results come in. Its keyword arguments are its settings, and the flags of the tool set them.
"""

from gc_net.registry import Registry

BENCHMARKS = Registry(
    "benchmark",
    {
        "step": "benchmarks.step:report",
        "roofline": "benchmarks.roofline:report",
        "normalization": "benchmarks.normalization:report",
        "methods": "benchmarks.methods:report",
        "pytorch": "benchmarks.pytorch:report",
        "depthwise": "benchmarks.depthwise:report",
        "allocator": "benchmarks.allocator:report",
        "render": "benchmarks.render:report",
        "input": "benchmarks.input:report",
        "predict": "benchmarks.predict:report",
        "engines": "benchmarks.engines:report",
        "revisions": "benchmarks.revisions:report",
        "start": "benchmarks.start:report",
        "memory": "benchmarks.memory:report",
        "tflite": "benchmarks.tflite:report",
        "size": "benchmarks.size:report",
        "help": "benchmarks.help:report",
        "objects": "benchmarks.objects:report",
    },
)


def get(name):
    """Return the `report` function of the benchmark called `name`."""
    return BENCHMARKS.get(name)
