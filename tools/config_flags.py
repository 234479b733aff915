"""Flags made from the settings' dataclasses, so that each is named and described once."""

import dataclasses
import inspect
import os
import sys

from absl import app, flags

from gc_net.datasets import DATASETS
from gc_net.settings import Settings, flag_name, is_section, plain_type
from gc_net.stages import run_folder
from gc_net.stages.budget import Budget
from gc_net.stages.config import (
    PLAIN_SECTIONS,
    RunOptions,
    TrainConfig,
    setting_flags,
    with_flags,
)

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
    """Define the flags of a run: all of `TrainConfig`, of `RunOptions`, and the test boxes."""
    path_flags.define(
        "boxes",
        None,
        "Box file of a folder, for evaluation alone: COCO .json, .csv, or a folder of XMLs.",
    )
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
    config, options = read(TrainConfig, **found), read(RunOptions)
    return _with_boxes(config), options


def _with_boxes(config):
    """Return settings with the boxes of --boxes among the options of their dataset."""
    boxes = flags.FLAGS.boxes
    if boxes is None:
        return config
    if "boxes" not in inspect.signature(DATASETS.get(config.data.dataset)).parameters:
        raise app.UsageError(
            f"The dataset {config.data.dataset} has its own boxes; leave out --boxes."
        )
    given = ",".join(filter(None, [config.data.dataset_options, f"boxes={boxes}"]))
    return with_flags(config, {"dataset_options": given})


def read_continued() -> tuple[TrainConfig, RunOptions]:
    """Return the settings in the flags; those that were not given, as in the run that is continued.

    That is the run in `work_dir`, or else the first of `reuse`, so that another shape or one more
    stage does not mean typing all flags again. Where a recipe is given, it says all that is meant.
    """
    options = read(RunOptions)
    found = _run_to_continue(options)
    if found is None:
        return read_run()
    folder, config = found
    given = {name: flags.FLAGS[name].value for name in setting_flags() if flags.FLAGS[name].present}
    # Only together are they checked: one more stage may need what the run there has.
    config = _with_boxes(with_flags(config, given))
    if options.verbose:
        print(f"Settings that are not given are those of the run in {folder}.", flush=True)
    return config, options


def _run_to_continue(options):
    """Return the folder and the settings of the run that is continued; None if there is none."""
    if "flagfile" in program.given_by_hand(sys.argv[1:]):
        return None
    for folder in filter(None, [options.work_dir, *options.reuse.split(",")]):
        recorded = run_folder.read_settings(os.path.expanduser(folder))
        if recorded is None:
            continue
        try:
            # Another head or shape has another parametrization, so what follows from them is open.
            return folder, TrainConfig.from_dict(recorded).reopened()
        except (TypeError, ValueError):
            return None  # of another version; what differs is said when it is compared
    return None


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
        config, options = read_continued()
        budget = None if budget is None else Budget(budget, program.given_by_hand(sys.argv[1:]))
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
