"""Flags made from the settings' dataclasses, so that each is named and described once."""

import dataclasses
import inspect
import sys
from collections.abc import Iterable

from absl import app, flags

from gc_net.settings import Settings, flag_name, is_section, plain_type
from gc_net.stages.budget import Budget
from gc_net.stages.config import PLAIN_SECTIONS, RunOptions, TrainConfig

from . import path_flags, program


def define(settings: type[Settings], prefix: str = "") -> None:
    """Define a flag for every plain setting of a dataclass.

    Args:
        prefix: Put before every name, e.g. `"detector_"`.
    """
    descriptions = settings.descriptions()
    names = []
    for field in dataclasses.fields(settings):
        if is_section(field):
            continue
        name, kind = flag_name(field, prefix), plain_type(field)
        text, allowed = descriptions[field.name], field.metadata
        names.append(name)
        if allowed and allowed["known"]:
            text += f" Known: {', '.join(allowed['known'])}."
        if allowed and allowed["choices"]:
            flags.DEFINE_enum(name, field.default, allowed["choices"], text)
        elif kind is bool:
            flags.DEFINE_bool(name, field.default, text)
        elif kind in (int, float):
            make = flags.DEFINE_integer if kind is int else flags.DEFINE_float
            make(name, field.default, text, lower_bound=allowed["low"] if allowed else None)
        else:
            # Most of them name files, and `~` begins nothing else.
            path_flags.define(name, field.default, text)
    program.group(inspect.getdoc(settings).partition("\n")[0].rstrip("."), names)


def read(settings: type[Settings], prefix: str = "", **fixed) -> Settings:
    """Build a settings object from the flags of `define`; `fixed` values replace flags."""
    values = {
        field.name: flags.FLAGS[flag_name(field, prefix)].value
        for field in dataclasses.fields(settings)
        if not is_section(field)
    }
    return settings(**{**values, **fixed})


def sections() -> dict[str, type[Settings]]:
    """Return the sections of a `TrainConfig` by name."""
    return {
        field.name: field.type for field in dataclasses.fields(TrainConfig) if is_section(field)
    }


def define_run() -> None:
    """Define the flags of a run: all of `TrainConfig` and of `RunOptions`."""
    for name, section in sections().items():
        define(section, prefix="" if name in PLAIN_SECTIONS else f"{name}_")
    define(TrainConfig)
    define(RunOptions)


def read_run() -> tuple[TrainConfig, RunOptions]:
    """Return the settings in the flags of `define_run`."""
    found = {
        name: read(section, prefix="" if name in PLAIN_SECTIONS else f"{name}_")
        for name, section in sections().items()
    }
    return read(TrainConfig, **found), read(RunOptions)


def given_by_hand(arguments: Iterable[str]) -> frozenset[str]:
    """Return the names of the flags on a command line, without those of its flagfiles."""
    words = [argument.lstrip("-") for argument in arguments if argument.startswith("-")]
    return frozenset(word.partition("=")[0] for word in words)


def run_stages(
    stages: list[str] | None = None, evaluate: bool = False, budget: str | None = None
) -> None:
    """Read the flags and run stages, for the training tools.

    Args:
        stages: The stages to run; all if None.
        evaluate: Whether to evaluate the model at the end, if there is one, and write a report.
        budget: How long it may take, e.g. 15m; flags on the command line keep their values.
    """
    try:
        config, options = read_run()
        budget = None if budget is None else Budget(budget, given_by_hand(sys.argv[1:]))
    except ValueError as error:
        raise app.UsageError(str(error)) from None
    with program.ending_plainly(interrupted=program.RESUMES):
        from gc_net.stages.runner import Runner

        with Runner(config, options, budget=budget) as runner:
            model_dir = runner.train(stages)
        if evaluate and runner.has_model(stages) and runner.chief:
            from gc_net.evaluation.evaluate import evaluate_run

            # Test images are read once: an automatic cache would only fill the disk.
            cache_dir = None if options.cache_dir == "auto" else runner.cache_dir
            evaluate_run(model_dir, runner.dataset, cache_dir)
