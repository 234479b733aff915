"""Processes that have imported TensorFlow before they start, which takes longer than most tests."""

import functools
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
# `tools` first, so that TensorFlow says nothing of drivers.
_PRELOADED = (
    "tools",
    "keras",
    "gc_net.evaluation.evaluate",
    "gc_net.stages.runner",
    "gc_net.localizer",
    "tests.frozen",
)


def run_tool(name, *arguments, **options):
    """Do what `python -m tools.<name> <arguments>` does, as `run_python` does."""
    return run_python(
        f"import runpy; runpy.run_module('tools.{name}', None, '__main__', True)",
        *arguments,
        **options,
    )


def run_python(code, *arguments, cwd=ROOT, environment=None, timeout=300):
    """Do what `python -c code arguments` does, and return a `subprocess.CompletedProcess`.

    The process is forked from one that has imported TensorFlow and done nothing else. A test of
    what is imported when must start its own.

    Args:
        environment: Variables to set beside those of this process.
    """
    arguments = [str(argument) for argument in arguments]
    variables = {**os.environ, **(environment or {})}
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("stdout", "stderr")]
        process = _context().Process(target=_run, args=(code, arguments, cwd, variables, files))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutError(f"{arguments} took more than {timeout} seconds: {code}")
        texts = [Path(file).read_text("utf-8") for file in files]
    return subprocess.CompletedProcess([code, *arguments], process.exitcode, *texts)


@functools.cache
def _context():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_PRELOADED))
    return context


def _run(code, arguments, cwd, variables, files):
    for descriptor, file in enumerate(files, 1):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(cwd)
    sys.path[:0] = [str(cwd), *filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv = ["-c", *arguments]
    exec(code, {"__name__": "__main__"})
