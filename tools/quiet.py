"""Keeps TensorFlow's messages about drivers and instruction sets off the terminal.

`TF_CPP_MIN_LOG_LEVEL=0` in the environment shows all of them.
"""

import contextlib
import os
import signal

from gc_net.imports import around_import

# Written while TensorFlow is loaded, before it reads the level of its log.
_NOISE = (
    b"All log messages before absl::InitializeLog()",
    b"Could not find cuda drivers",
    b"Unable to register cu",
    b"oneDNN custom operations are on",
)


def be_quiet() -> None:
    """Quieten TensorFlow; to be called before it is imported."""
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "3" and hasattr(os, "fork"):
        around_import("tensorflow", _filtered_errors)


@contextlib.contextmanager
def _filtered_errors():
    """Remove lines of `_NOISE` from standard error within the `with` block.

    A separate process filters them, so that no line is lost that is written just before a crash:
    TensorFlow ends the process with a message if the processor lacks an instruction.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        os.close(write_end)
        _filter(read_end)
    os.close(read_end)
    standard_error = os.dup(2)
    os.dup2(write_end, 2)
    os.close(write_end)
    try:
        yield
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)
        os.waitpid(child, 0)


def _filter(descriptor):
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is interrupted may still say so
        with open(descriptor, "rb") as lines:
            for line in lines:
                if not any(noise in line for noise in _NOISE):
                    os.write(2, line)
    finally:
        os._exit(0)
