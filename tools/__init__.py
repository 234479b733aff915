"""Command-line tools: `python -m tools.<name> --help`."""

import os

# TensorFlow's own allocator keeps the memory of feature maps from one training step to the next;
# the C library's gives it back and clears it again, a quarter of the time of a step on a CPU
# (`python -m tools.benchmark --what=allocator`). Set it to "false" to do without.
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "true")
