"""The folder of a run: who may write to it, what it was started with, and how files get there."""

import contextlib
import errno
import functools
import json
import os
import platform
import subprocess
import sys

import numpy as np

from gc_net import teachers
from gc_net.atomic_files import remove_partial, replaced_file
from gc_net.locks import try_lock
from gc_net.stages.config import TrainConfig
from gc_net.version import __version__
from gc_net.weights import read_weights_npz

CONFIG_FILE = "config.json"
LOCK_FILE = "lock"
DEFAULTS = TrainConfig().to_dict()


class RunError(RuntimeError):
    """A run that cannot start or go on; the message says why, and what to do."""


@contextlib.contextmanager
def writing(path):
    """Turn the errors of a full or unwritable disk into ones that say what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RunError(
                f"The disk is full: {path} could not be written ({error.strerror}). What was "
                "written before is intact. Free some space and run the same command again; it "
                "goes on from the last checkpoint."
            ) from error
        raise RunError(
            f"{path} cannot be written: {error.strerror or error}. Choose another folder with "
            "--work_dir, or change its permissions."
        ) from error


def replace_file(path, write, mode="wb"):
    """Write a file in one step: readers see the old one or the new one, whatever happens.

    Args:
        path: File to write.
        write: Function that is given the open temporary file.
    """
    with writing(path), replaced_file(path, mode, sync=True) as file:
        write(file)


def write_json(path, record):
    def write(file):
        json.dump(record, file, indent=2, ensure_ascii=False)
        file.write("\n")

    replace_file(path, write, mode="w")


def read_json(path):
    """Return the content of a JSON file, or None where there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}. Delete it, or use another folder.") from None


def write_array(path, **named):
    """Write an array, given by its name, to an .npz file."""
    replace_file(path, lambda file: np.savez(file, **named))


def read_array(path, name, optional=False):
    """Return an array of an .npz file; None where there is no such file, or a damaged one.

    Args:
        optional: Whether a file may do without this array, which is None then.
    """
    try:
        arrays = read_weights_npz(path)
        return arrays.get(name) if optional else arrays[name]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as error:
        print(f"{path} is damaged ({error}) and is made anew.", file=sys.stderr)
        return None


def make_folder(path):
    with writing(path):
        os.makedirs(path, exist_ok=True)
    return path


@contextlib.contextmanager
def locked(work_dir):
    """Keep other processes out of `work_dir`. The lock goes when its process does, however."""
    make_folder(work_dir)
    path = os.path.join(work_dir, LOCK_FILE)
    with writing(path):
        file = open(path, "a+")  # noqa: SIM115
    with file:
        if not try_lock(file):
            file.seek(0)
            raise RunError(
                f"{work_dir} is in use by another run (process {file.read().strip() or '?'}). "
                "Wait for it, stop it, or choose another --work_dir."
            )
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        remove_partial(work_dir, sparing=LOCK_FILE)
        yield


def check_config(folder, config, write=True, free=()):
    """Record `config` in `folder`, or compare it with what is recorded there.

    A setting or a section that the record does not have came with a later version; the run had
    what is now its default.

    Args:
        folder: A stage's folder.
        config: Nested dict of settings.
        write: Whether to record it. Otherwise only settings that are given are compared.
        free: Names of settings that may differ, e.g. `"detector.look"`.

    Raises:
        RunError: If the folder was made with other settings; all that differ are listed.
    """
    path = os.path.join(folder, CONFIG_FILE)
    # Through JSON, so that tuples compare as the lists they are read back as.
    config = json.loads(json.dumps(config))
    recorded = read_json(path)
    if recorded is None:
        if write:
            make_folder(folder)
            write_json(path, {"config": config, "environment": environment()})
        return
    recorded = recorded.get("config", {})
    if "warmup" in recorded:
        recorded = {**recorded, "warmup": teachers.upgraded(recorded["warmup"])}
    if not write:
        recorded = {name: value for name, value in recorded.items() if name in config}
    differences = _differences(recorded, config, defaults=DEFAULTS)
    differences = [difference for difference in differences if difference[0] not in free]
    if differences:
        listing = "\n".join(
            f"  {name}: {before!r} there, {now!r} now" for name, before, now in differences
        )
        raise RunError(
            f"{folder} holds a run with other settings:\n{listing}\n"
            "Choose another --work_dir, delete this one, or use its settings."
        )


def environment():
    """Return what a result may depend on besides its configuration."""
    import importlib.metadata

    packages = ("tensorflow", "keras", "numpy", "opencv-python-headless")
    versions = {}
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return {
        "gc_net": __version__,
        "git_revision": git_revision(),
        "python": platform.python_version(),
        "packages": versions,
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "command": sys.argv,
    }


@functools.cache
def git_revision():
    """Return the revision of the source, with `+` where files were changed, or None."""
    folder = os.path.dirname(os.path.abspath(__file__))

    def git(*arguments):
        return subprocess.run(
            ["git", "-C", folder, *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _differences(recorded, given, prefix="", defaults=None):
    """Return (name, recorded value, given value) for all settings that differ, sections opened."""
    found = []
    for name in {**recorded, **given}:
        before, now = recorded.get(name, (defaults or {}).get(name)), given.get(name)
        if isinstance(before, dict) and isinstance(now, dict):
            found += _differences(before, now, f"{prefix}{name}.", DEFAULTS.get(name))
        elif before != now and not (name == "data_dir" and _same_folder(before, now)):
            found.append((prefix + name, before, now))
    return found


def _same_folder(*paths):
    return None not in paths and len({os.path.abspath(os.path.expanduser(p)) for p in paths}) == 1
