"""Flags made from the settings' dataclasses, so that each is named and described once."""

import contextlib
import dataclasses
import inspect
import sys

from absl import app, flags

from gc_net.stages.config import (
    ClassifierConfig,
    DataConfig,
    DetectorConfig,
    GeneratorConfig,
    NamerConfig,
    NetworkConfig,
    RunOptions,
    TrainConfig,
    WarmupConfig,
    is_section,
    plain_type,
)

from . import path_flags, program

SECTIONS = {
    "data": DataConfig,
    "network": NetworkConfig,
    "classifier": ClassifierConfig,
    "generator": GeneratorConfig,
    "warmup": WarmupConfig,
    "detector": DetectorConfig,
    "namer": NamerConfig,
}


def define(settings, prefix="", skip=(), defaults=None):
    """Define a flag for every plain setting of a dataclass.

    Args:
        settings: A subclass of `Settings`.
        prefix: Put before every name, e.g. `"detector_"`.
        skip: Names of settings that get no flag.
        defaults: Other defaults than the dataclass's.
    """
    descriptions = settings.descriptions()
    names = []
    for field in dataclasses.fields(settings):
        if field.name in skip or is_section(field):
            continue
        name, kind = prefix + field.name, plain_type(field)
        default = (defaults or {}).get(field.name, field.default)
        text, allowed = descriptions[field.name], field.metadata
        names.append(name)
        if allowed and allowed["known"]:
            text += f" Known: {', '.join(allowed['known'])}."
        if allowed and allowed["choices"]:
            flags.DEFINE_enum(name, default, allowed["choices"], text)
        elif kind is bool:
            flags.DEFINE_bool(name, default, text)
        elif kind in (int, float):
            make = flags.DEFINE_integer if kind is int else flags.DEFINE_float
            make(name, default, text, lower_bound=allowed["low"] if allowed else None)
        else:
            # Most of them name files, and `~` begins nothing else.
            path_flags.define(name, default, text)
    program.group(inspect.getdoc(settings).partition("\n")[0].rstrip("."), names)


def read(settings, prefix="", **fixed):
    """Build a settings object from the flags that `define` made; `fixed` are given instead."""
    values = {
        field.name: flags.FLAGS[prefix + field.name].value
        for field in dataclasses.fields(settings)
        if not is_section(field) and prefix + field.name in flags.FLAGS
    }
    return settings(**{**values, **fixed})


def define_stages(*stages, own=None):
    """Define the flags of a run: of data, network, run, and of the given stages.

    Flags of a stage begin with its name, but for those of the tool's `own`.
    """
    define(DataConfig)
    define(NetworkConfig)
    for stage in stages:
        skip = ("shape", "network", "seed") if stage == "generator" else ()
        define(SECTIONS[stage], prefix="" if stage == own else f"{stage}_", skip=skip)
    define(TrainConfig)
    define(RunOptions)


def read_stages(*stages, own=None):
    """Return the `TrainConfig` and the `RunOptions` that the flags of `define_stages` say."""
    sections = {"data": read(DataConfig), "network": read(NetworkConfig)}
    for stage in stages:
        sections[stage] = read(SECTIONS[stage], "" if stage == own else f"{stage}_")
    return read(TrainConfig, **sections), read(RunOptions)


def run_stages(sections, stages, own=None, evaluate=False, **shared):
    """Do what a training tool does: read the flags, run stages, put errors in one line.

    Args:
        sections, own: What `define_stages` was given.
        stages: The stages to run.
        evaluate: Whether to evaluate at the end and write a report, where the detector was trained.
        shared: `classifier_dir` and `warmup_dir` as `Chain` takes them.
    """
    try:
        config, options = read_stages(*sections, own=own)
    except ValueError as error:
        raise app.UsageError(str(error)) from None
    with ending_plainly():
        from gc_net.stages.runner import Chain

        with Chain(config, options, **shared) as chain:
            model_dir = chain.train(stages)
        if evaluate and {"detector", "namer"} & set(stages) and chain.chief:
            from gc_net.evaluation.evaluate import evaluate_run

            # Test images are read once: a cache that nobody asked for would only fill the disk.
            cache_dir = None if options.cache_dir == "auto" else chain.cache_dir
            evaluate_run(model_dir, chain.dataset, cache_dir)


@contextlib.contextmanager
def ending_plainly():
    """End the process without a traceback where a run fails or is interrupted."""
    from gc_net.stages.run_folder import RunError

    try:
        yield
    except (RunError, ValueError, OSError) as error:
        sys.exit(f"Error: {error}")
    except KeyboardInterrupt:
        print("\nInterrupted. The same command goes on where this stopped.", file=sys.stderr)
        sys.exit(130)
