"""The paper's rivals side by side, on the same backbone, images and epochs: its Tables 3 and 4.

    work_dir/
        comparison.md, .tex, .csv, .json, gallery.jpg   written again after every run
        <method>/seed<n>/                               a run each, with its evaluation and report
        plain_classifier/seed<n>/                       shared by methods without a classifier

Each run is one of `gc-net train`. Runs share decoded images, and stages whose settings agree. The
same call resumes where it was stopped.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from gc_net import methods as all_methods
from gc_net.evaluation.levels import AUTO
from gc_net.experiments.rivals_gallery import write_gallery
from gc_net.experiments.rivals_table import TITLES, rows_of, title_of, write_tables
from gc_net.experiments.sweep import runs_of_variants
from gc_net.methods import GC_NET, METHODS
from gc_net.stages.config import RunOptions, TrainConfig

# The run of methods that use a classifier trained as usual. Grad-CAM allows every head.
PLAIN, PLAIN_METHOD = "plain_classifier", "grad_cam"
# The rivals' authors train classifiers on whole images. Masked ones are a recipe's help for GC-Net.
_WHOLE_IMAGES = {"classifier_mask_fraction": 0.0}
_LENGTH = ("epochs", "steps", "min_steps", "max_steps", "batch_size")


def presets(config: TrainConfig) -> dict[str, dict[str, Any]]:
    """Return the rivals that are settings: names to changes of flags of gc-net train.

    `gc_net` has the given settings. `gc_net_plain` has only the paper's three losses, for as many
    steps as the classifier. `psol` (Zhang et al. 2020) has two steps: boxes of descriptor
    transforming, and a plain regressor of boxes that learns them as the warm-up; no loss follows.
    Its authors' regressor has two hidden layers on the positions of VGG16's map, and a squared
    error of the coordinates. Here it is the head that keeps positions, and the error is the overlap
    of masks.
    """
    length = {name: getattr(config.classifier, name) for name in _LENGTH}
    weights = "" if config.network.weights != "none" else ":weights=classifier"
    plain = {
        **_WHOLE_IMAGES,
        "second_look": 0.0,
        "mirror": False,
        "second_classifier_epochs": 0,
        "second_classifier_steps": None,
        "rating_images": 0,
    }
    # Not the values of a recipe, which suit another teacher.
    usual = {field.name: field.default for field in dataclasses.fields(type(config.warmup))}
    return {
        GC_NET: {},
        "gc_net_plain": {
            **plain,
            "warmup_epochs": 0,
            "warmup_steps": None,
            "detector_head": "native" if config.detector.head == "edges" else config.detector.head,
            "detector_blend": 0.0,
            **{f"detector_{name}": value for name, value in length.items()},
        },
        "psol": {
            **plain,
            **{f"warmup_{name}": value for name, value in {**usual, **length}.items()},
            "warmup_teacher": f"descriptors{weights}",
            "detector_shape": "rectangle",
            "detector_head": "position",
            "detector_parametrization": "sigmoid",
            "detector_generator": "model",
            "detector_epochs": 0,
            "detector_steps": None,
            "detector_blend": 0.0,
        },
    }


def known_names() -> tuple[str, ...]:
    """Return the names that a comparison takes."""
    return (*METHODS, *TITLES)


def run_comparison(
    config: TrainConfig,
    options: RunOptions,
    methods: Sequence[str],
    seeds: Sequence[int] | None = None,
    *,
    level_teacher: str | None = AUTO,
    protocol: str = "paper",
    split: str = "test",
    ten_crop: bool = False,
    limit: int | None = None,
) -> str:
    """Train and evaluate every method with every seed, and put them into one table.

    Args:
        config: The `TrainConfig` that all share. Settings of GC-Net's own stages are those of
            `gc_net`.
        options: The `RunOptions`; `work_dir` is the comparison's folder.
        methods: Names of `known_names`, in the order of the table.
        seeds: Seeds of the runs; that of `config` alone if None.
        level_teacher: As for `evaluate`.
        protocol, split, ten_crop, limit: As for `evaluate`. Runs that were measured in another way
            are measured again, and not trained again.

    Returns:
        The table as Markdown.

    Example:
        run_comparison(config, RunOptions(work_dir="runs/rivals"), ["cam", "has", "gc_net"])
    """
    methods = list(dict.fromkeys(methods))
    unknown = [name for name in methods if name not in known_names()]
    if unknown or not methods:
        raise ValueError(
            f"Methods must be some of {', '.join(known_names())}. "
            f"Received: {', '.join(unknown) or 'none'}"
        )
    _check_methods(config, methods)
    seeds = [config.seed] if seeds is None else list(seeds)
    variants, asked = _variants(config, methods)
    measure = {"protocol": protocol, "split": split, "ten_crop": ten_crop, "limit": limit}
    found = runs_of_variants(
        config,
        options,
        variants,
        seeds,
        {**measure, "level_teacher": level_teacher},
        asked,
        # All others have their own classifier.
        sharing=[PLAIN, *TITLES],
        report=True,
        level_folder=options.work_dir,
    )
    finished, text = [], ""
    for item in found:
        finished.append(item)
        rows = [row for name in methods for row in rows_of(name, _runs_of(name, finished))]
        complete = len(finished) == len(variants) * len(seeds)
        text = write_tables(options.work_dir, rows, complete)
        write_gallery(options.work_dir, config.data, _pictures(methods, options, finished))
    return text


def _check_methods(config, names):
    """Raise if the network does not allow a method, before anything is trained."""
    from gc_net.classifier import Classifier
    from gc_net.methods.base import Unsuitable

    # Made for its layers alone; the runs make their own.
    network = Classifier(config.network.backbone, 2, config.data.image_size, weights=None)
    for method in (all_methods.get(name) for name in names if name in METHODS):
        try:
            if method.head == network.head_name:
                method.check(network)
        except Unsuitable as error:
            raise ValueError(f"The method {method.name!r} cannot be used: {error}") from error


def trains(name: str) -> bool:
    """Return whether a name of `known_names` has a run of its own."""
    return name not in METHODS or all_methods.get(name).trains


def _variants(config, methods):
    """Return {run: changes of settings}, and {run: methods to measure on its classifier}."""
    variants, asked = {}, {}
    on_plain = [name for name in methods if not trains(name)]
    if on_plain:
        # First, so that the others take its classifier.
        variants[PLAIN] = {"method": PLAIN_METHOD, **_WHOLE_IMAGES}
        asked[PLAIN] = on_plain
    own = presets(config)
    for name in methods:
        if trains(name):
            rival = {"method": name, **_WHOLE_IMAGES}
            variants[name] = {"method": GC_NET, **own[name]} if name in own else rival
            asked[name] = []
    return variants, asked


def _run_name(name):
    return name if trains(name) else PLAIN


def _runs_of(name, finished):
    """Return (seed, metrics) of the runs of a method that are done."""
    return [(seed, metrics) for run, seed, metrics in finished if run == _run_name(name)]


def _pictures(methods, options, finished):
    """Return {title: (predictions.json, method)} of the first seed of each method that is done."""
    found = {}
    for name in methods:
        for seed, _ in _runs_of(name, finished)[:1]:
            folder = os.path.join(options.work_dir, _run_name(name), f"seed{seed}", "evaluation")
            found[title_of(name)] = (os.path.join(folder, "predictions.json"), name)
    return found
