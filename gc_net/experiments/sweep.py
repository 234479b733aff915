"""Runs of many variants and seeds: each trained and evaluated once, together one table.

    work_dir/
        sweep.json, table.md, table.tex       written anew after every run
        classifiers/<digest>/                 one for all variants that differ in the detector only
        warmups/<digest>/                     one for all that differ in the last stage only
        <variant>/seed<n>/                    a run each, with evaluation/metrics.json

The same call goes on where it was stopped.
"""

import dataclasses
import hashlib
import itertools
import json
import os

from gc_net.evaluation.files import write_json, write_text
from gc_net.experiments import compare
from gc_net.stages import run_folder as runs
from gc_net.stages.config import STAGES, WARMUP_SETTINGS, TrainConfig, plain_type

# Changes of settings by variant, named as the flags of gc-net train.
LOSSES = {
    "object": {"detector_alpha": 0.0, "detector_gamma": 0.0},
    "object_area": {"detector_gamma": 0.0},
    "object_background": {"detector_alpha": 0.0},
    "object_area_background": {},
}
GEOMETRIES = {
    f"{generator}_{shape}": {"detector_generator": generator, "detector_shape": shape}
    for generator, shape in itertools.product(
        ("learned", "model"), ("rectangle", "rotated_rectangle", "rotated_ellipse")
    )
}
# The paper's Tables 1 and 2; the names are also those of the tables' forms.
SWEEPS = {"losses": LOSSES, "geometries": GEOMETRIES}


def grid(choices):
    """Return all combinations of settings as variants.

    Args:
        choices: Mapping of a setting to its values, e.g. `{"detector_shape": ["rectangle", …]}`.
    """
    names = list(choices)
    variants = {}
    for values in itertools.product(*choices.values()):
        changes = dict(zip(names, values, strict=True))
        variants["_".join(f"{name}-{value}" for name, value in changes.items())] = changes
    return variants


def changed(config, changes):
    """Return a `TrainConfig` with some settings changed.

    Args:
        changes: Mapping of settings, named as the flags of gc-net train, to values; texts are
            read as the setting's type, and `"none"` as None where a setting may be left open.
    """
    places = _places()
    for name, value in changes.items():
        if name not in places:
            raise ValueError(f"There is no setting {name!r}. Known ones: {', '.join(places)}.")
        section, field = places[name]
        value = _typed(name, value, field)
        if section is None:
            config = dataclasses.replace(config, **{field.name: value})
        else:
            part = dataclasses.replace(getattr(config, section), **{field.name: value})
            config = dataclasses.replace(config, **{section: part})
    return config


def run_sweep(
    config,
    options,
    variants,
    seeds=None,
    form="methods",
    *,
    protocol="paper",
    split="test",
    ten_crop=False,
    limit=None,
):
    """Train and evaluate every variant with every seed.

    Args:
        config: The `TrainConfig` that variants change.
        options: The `RunOptions`; `work_dir` is the sweep's folder.
        variants: {name: changes}, see `changed`; or a name of `SWEEPS`.
        seeds: Seeds of the runs; that of `config` alone if None.
        form: Form of the table, see `compare.table`.
        protocol, split, ten_crop, limit: As for `evaluate`. Runs that were measured otherwise are
            measured again, and not trained again.

    Returns:
        The table as Markdown.
    """
    variants = SWEEPS[variants] if isinstance(variants, str) else variants
    if any("seed" in changes for changes in variants.values()):
        raise ValueError(
            "`seed` cannot be varied: runs that differ in it are one row. Use --seeds."
        )
    seeds = [config.seed] if seeds is None else seeds
    measure = {"protocol": protocol, "split": split, "ten_crop": ten_crop, "limit": limit}
    # Every configuration is made first, so that a mistake in the last one shows before the first.
    configs = {
        (name, seed): changed(config, {**changes, "seed": seed})
        for seed in seeds
        for name, changes in variants.items()
    }
    finished = []
    for (name, seed), settings in configs.items():
        work_dir = os.path.join(options.work_dir, name, f"seed{seed}")
        finished.append((name, seed, _run(settings, options, work_dir, measure)))
        text = _write(options.work_dir, finished, variants, form)
    return text


def _run(config, options, work_dir, measure):
    """Return the content of a run's metrics.json; train and evaluate where that is not done."""
    metrics_file = os.path.join(work_dir, "evaluation", compare.METRICS_FILE)
    trained = os.path.exists(metrics_file)
    if trained:
        runs.check_config(work_dir, config.to_dict(), write=False)
        metrics = compare.read_run(metrics_file).metrics
        # A file that does not say how it was measured is as good as none.
        if all(name in metrics and metrics[name] == measure[name] for name in measure):
            return metrics
    import keras

    from gc_net.evaluation.evaluate import recorded_dataset, run_evaluation

    keras.utils.clear_session()
    # One for all runs: they read the same images.
    cache_dir = _shared_cache(config, options)
    options = dataclasses.replace(options, cache_dir=cache_dir or "none")
    model_dir = os.path.join(work_dir, "model")
    if not trained:
        model_dir = _train(config, options, work_dir)
    return run_evaluation(
        model_dir,
        recorded_dataset,
        os.path.dirname(metrics_file),
        methods=(),
        report=False,
        cache=cache_dir,
        **measure,
    )


def _train(config, options, work_dir):
    """Train a run, with what it shares with others of the sweep; return its model's folder."""
    from gc_net.stages.runner import train

    shared = os.path.join(options.work_dir, "classifiers", _classifier_digest(config))
    train(config, dataclasses.replace(options, work_dir=shared), stages=("classifier",))
    before = None
    if config.warmup.epochs:
        before = os.path.join(options.work_dir, "warmups", _warmup_digest(config))
        train(
            config,
            dataclasses.replace(options, work_dir=before),
            stages=("warmup",),
            classifier_dir=shared,
        )
    return train(
        config,
        dataclasses.replace(options, work_dir=work_dir),
        stages=("generator", "detector", "namer"),
        classifier_dir=shared,
        warmup_dir=before,
    )


def _shared_cache(config, options):
    from gc_net.training.data import cache_folder, open_dataset

    return cache_folder(options, open_dataset(config.data).split("train"), config.data)


def _classifier_digest(config):
    """Return what tells one classifier from another."""
    names = ("data", "network", "classifier", "seed", "mixed_precision", "deterministic")
    settings = config.to_dict()
    return _digest({name: settings[name] for name in names})


def _warmup_digest(config):
    """Return what tells one warmed-up detector from another."""
    settings = config.to_dict()
    detector = {name: settings["detector"][name] for name in WARMUP_SETTINGS}
    return _digest([_classifier_digest(config), settings["warmup"], detector])


def _digest(settings):
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


def _write(work_dir, finished, variants, form):
    """Write tables and numbers of the runs so far; return the Markdown table."""
    rows = [compare.Run(name, metrics) for name, _, metrics in finished]
    texts = {kind: compare.table(rows, form, kind) for kind in ("markdown", "latex")}
    record = {}
    for name in dict.fromkeys(name for name, _, _ in finished):
        own = [(seed, compare.Run(name, m)) for other, seed, m in finished if other == name]
        record[name] = {"changes": variants[name], "seeds": [seed for seed, _ in own]}
        for key in compare.METRICS:
            mean, deviation = compare.statistics([run for _, run in own], key)
            if mean is not None:
                record[name][key] = {"mean": mean, "std": deviation}
    write_json(os.path.join(work_dir, "sweep.json"), record)
    write_text(os.path.join(work_dir, "table.md"), texts["markdown"] + "\n")
    write_text(os.path.join(work_dir, "table.tex"), texts["latex"] + "\n")
    return texts["markdown"]


def _places():
    """Return {flag name: (section or None, field)} of all settings."""
    sections = {field.name: field.type for field in dataclasses.fields(TrainConfig)}
    places = {}
    for section, prefix in [("data", ""), ("network", ""), *((s, f"{s}_") for s in STAGES)]:
        for field in dataclasses.fields(sections[section]):
            places[prefix + field.name] = (section, field)
    for field in dataclasses.fields(TrainConfig):
        if field.name not in ("data", "network", *STAGES):
            places[field.name] = (None, field)
    return places


def _typed(name, value, field):
    if not isinstance(value, str):
        return value
    kind = plain_type(field)
    if value == "none" and kind is not field.type:
        return None
    if kind is bool:
        if value not in ("true", "false"):
            raise ValueError(f"{name} must be true or false. Received: {value!r}")
        return value == "true"
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{name} must be of type {kind.__name__}. Received: {value!r}") from None
