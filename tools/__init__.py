"""Command-line tools: `gc-net <name> --help`, or `python -m tools.<name> --help` in a checkout.

They are installed as `gc_net.cli`, so they import each other relatively.
"""

import os

from .quiet import be_quiet

be_quiet()
# TensorFlow's own allocator keeps the memory of feature maps from one training step to the next.
# The C library's gives it back and clears it again, which takes a quarter of a step on a CPU
# (`python -m benchmarks --what=allocator`). Set the variable to "false" to turn it off.
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "true")
