"""The folder of a run: its lock, its recorded settings, and its files."""

import contextlib
import copy
import functools
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gc_net import teachers
from gc_net.atomic_files import remove_partial
from gc_net.datasets import DATASETS
from gc_net.locks import try_lock
from gc_net.run_files import (
    RunError,
    explained_write_errors,
    make_folder,
    read_json,
    replace_file,
    write_json,
)
from gc_net.settings import read_pairs
from gc_net.version import __version__
from gc_net.weights import read_weights_npz

CONFIG_FILE = "config.json"
LOCK_FILE = "lock"
# Version of the names of settings in a record. Records without it are of an earlier version.
LAYOUT = 2
UNKNOWN = "not recorded"


def write_array(path: str, **named: np.ndarray) -> None:
    """Write an array, given by its name, to an .npz file."""
    replace_file(path, lambda file: np.savez(file, **named))


def read_array(path: str, name: str, optional: bool = False) -> np.ndarray | None:
    """Return an array of an .npz file; None if the file is missing or damaged.

    Args:
        optional: Whether the array may be missing in the file; the result is then None.
    """
    try:
        arrays = read_weights_npz(path)
        return arrays.get(name) if optional else arrays[name]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as error:
        print(f"{path} is damaged ({error}) and is made again.", file=sys.stderr)
        return None


@contextlib.contextmanager
def locked(work_dir: str) -> Iterator[None]:
    """Keep other processes out of `work_dir`. The lock ends with its process, in any case."""
    make_folder(work_dir)
    path = os.path.join(work_dir, LOCK_FILE)
    with explained_write_errors(path):
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


def read_settings(folder: str) -> dict[str, Any] | None:
    """Return the recorded settings of `folder`; None if there is no record."""
    record = read_json(os.path.join(folder, CONFIG_FILE))
    if record is None:
        return None
    settings = record.get("config", {})
    return settings if record.get("layout") == LAYOUT else renamed(settings)


def run_settings(run_dir: str, name: str) -> dict[str, Any]:
    """Return the settings that a stage of a run was trained with."""
    folder = os.path.join(os.path.expanduser(run_dir), name)
    settings = read_settings(folder)
    if settings is None:
        raise RunError(
            f"There is no {name} in {run_dir}: {folder}/{CONFIG_FILE} does not exist. "
            f"Train one with `gc-net train --stage={name}`, or give the folder of a run "
            "that has one."
        )
    return settings


def read_budget(folder: str) -> dict[str, Any] | None:
    """Return the budget of a run's first start, and the picked values; None without a budget."""
    record = read_json(os.path.join(folder, CONFIG_FILE)) or {}
    return record.get("budget")


def write_settings(
    folder: str, settings: Mapping[str, Any], budget: Mapping[str, Any] | None = None
) -> None:
    """Record settings in `folder`, with everything else that a result may depend on.

    Args:
        budget: The budget and the picked values, as `read_budget` returns them.
    """
    record = {"layout": LAYOUT, "config": settings, "environment": environment()}
    if budget is not None:
        record["budget"] = budget
    write_json(os.path.join(make_folder(folder), CONFIG_FILE), record)


def differences(recorded: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return a line for each setting in which two records differ.

    A setting or a section that is not in the record came with a later version; the run had the
    present default. Settings that only evaluation reads are not compared.
    """
    from gc_net.stages.config import TrainConfig

    defaults = _comparable(TrainConfig().to_dict())
    return _differences(_comparable(recorded), _comparable(given), defaults)


def check_settings(folder: str, given: Mapping[str, Any]) -> None:
    """Raise a `RunError` if `folder` was made with other settings; all of them are listed."""
    recorded = read_settings(folder)
    found = [] if recorded is None else differences(recorded, given)
    if found:
        listing = "\n".join(f"  {line}" for line in found)
        raise RunError(
            f"{folder} holds a run with other settings:\n{listing}\n"
            "Choose another --work_dir, delete this one, or use its settings. With "
            f"--reuse={os.path.dirname(folder)} another --work_dir takes from this run all stages "
            "that its settings do not change."
        )


def renamed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of an earlier version's record under their present names."""
    settings = copy.deepcopy(dict(settings))
    generator = settings.get("generator", {})
    if "shape" in generator:
        drawn = {"shape": generator.pop("shape"), "generator_network": generator.pop("network")}
        settings = {"detector": drawn, "seed": generator.pop("seed"), **settings}
    if "warmup" in settings:
        settings["warmup"] = teachers.upgraded(settings["warmup"])
    detector = settings.get("detector", {})
    if "alpha" in detector:
        terms = {"area": "alpha", "object": "beta", "background": "gamma"}
        weights = {term: detector.pop(name) for term, name in terms.items()}
        weights = [f"{term}={value:g}" for term, value in weights.items() if value is not None]
        detector["loss_weights"] = ",".join(weights)
    if "generator_weights" in detector:
        # The detector's record had no settings of the generator, which has its own record.
        settings.setdefault("generator", UNKNOWN)
    if "head" in detector:
        # There was no other.
        detector.setdefault("parametrization", "sigmoid")
    look = detector.pop("look", 0.0)
    if "namer" in settings:
        settings["second_classifier"] = settings.pop("namer")
        settings["second_look"] = look
    # Earlier versions could use the classifiers of another run, even of another seed.
    seed = settings.pop("classifier_run", {}).get("seed", settings.get("seed"))
    if seed != settings.get("seed"):
        settings["seed of the classifier"] = seed
    return settings


def environment() -> dict[str, Any]:
    """Return versions, machine and command, which a result may also depend on."""
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
def git_revision() -> str | None:
    """Return the revision of the source, with `+` if files were changed, or None."""
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


def _comparable(settings):
    """Return settings in a form for comparison: full paths, and pairs as dicts."""
    # Through JSON, so that tuples compare as the lists they are read back as.
    settings = json.loads(json.dumps(settings))
    data, detector = settings.get("data"), settings.get("detector", {})
    if data is not None:
        options = read_pairs(data.get("dataset_options", ""), "dataset_options")
        if data.get("dataset") in DATASETS:
            for name in DATASETS.get(data["dataset"]).evaluation_options:
                options.pop(name, None)
        data["dataset_options"] = options
        if data.get("data_dir") is not None:
            data["data_dir"] = os.path.abspath(os.path.expanduser(data["data_dir"]))
    if "loss_weights" in detector:
        detector["loss_weights"] = read_pairs(detector["loss_weights"], "loss_weights")
    return settings


def _differences(recorded, given, defaults, prefix=""):
    found = []
    for name in {**recorded, **given}:
        before, now = recorded.get(name, defaults.get(name)), given.get(name)
        if isinstance(before, dict) and isinstance(now, dict):
            found += _differences(before, now, defaults.get(name) or {}, f"{prefix}{name}.")
        elif before not in (now, UNKNOWN):
            found.append(f"{prefix}{name}: {before!r} there, {now!r} now")
    return found
