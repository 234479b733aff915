"""Runs of many variants and seeds: each trained and evaluated once, together one table.

    work_dir/
        sweep.json, table.md, table.tex       written again after every run
        <variant>/seed<n>/                    a run each, with evaluation/metrics.json

A run takes stages from earlier runs if their settings agree, such as the classifier for variants
that differ in the detector. The same call resumes where it was stopped.
"""

import dataclasses
import itertools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from gc_net.evaluation.files import write_json, write_text
from gc_net.experiments import compare
from gc_net.settings import plain_type, read_pairs
from gc_net.stages import run_folder
from gc_net.stages.config import RunOptions, TrainConfig, setting_flags, with_flags

# Changes of settings by variant, named as the flags of gc-net train.
LOSSES = {
    "object": {"loss_weights": "area=0,background=0"},
    "object_area": {"loss_weights": "background=0"},
    "object_background": {"loss_weights": "area=0"},
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


def grid(choices: Mapping[str, Sequence]) -> dict[str, dict]:
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


def changed(config: TrainConfig, changes: Mapping) -> TrainConfig:
    """Return a `TrainConfig` with some settings changed.

    Args:
        changes: Mapping of settings, named as the flags of gc-net train, to values. Texts are read
            as the setting's type, and `"none"` as None if a setting may be open. Weights of loss
            terms that are not named stay as they are.
    """
    places, values = setting_flags(), {}
    for name, value in changes.items():
        if name not in places:
            raise ValueError(f"There is no setting {name!r}. Known ones: {', '.join(places)}.")
        values[name] = _typed(name, value, places[name][1])
        if name == "loss_weights":
            values[name] = _with_weights(config.detector.weights(), values[name])
    return with_flags(config, values)


def run_sweep(
    config: TrainConfig,
    options: RunOptions,
    variants: Mapping[str, Mapping] | str,
    seeds: Sequence[int] | None = None,
    form: str = "methods",
    *,
    protocol: str = "paper",
    split: str = "test",
    ten_crop: bool = False,
    limit: int | None = None,
) -> str:
    """Train and evaluate every variant with every seed.

    Args:
        config: The `TrainConfig` that variants change.
        options: The `RunOptions`; `work_dir` is the sweep's folder.
        variants: {name: changes}, see `changed`; or a name of `SWEEPS`.
        seeds: Seeds of the runs; that of `config` alone if None.
        form: Form of the table, see `compare.table`.
        protocol, split, ten_crop, limit: As for `evaluate`. Runs that were measured in another way
            are measured again, and not trained again.

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
    finished = []
    for run in runs_of_variants(config, options, variants, seeds, measure):
        finished.append(run)
        text = _write(options.work_dir, finished, variants, form)
    return text


def runs_of_variants(
    config: TrainConfig,
    options: RunOptions,
    variants: Mapping[str, Mapping],
    seeds: Sequence[int],
    measure: Mapping[str, Any],
    methods: Mapping[str, Sequence[str]] | None = None,
    sharing: Collection[str] | None = None,
    **evaluation: Any,
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Train and evaluate every variant with every seed; yield each when it is finished.

    Finished runs are neither trained nor evaluated again.

    Args:
        config, options, variants, seeds: As for `run_sweep`.
        measure: Arguments of `evaluate` that metrics.json records. Runs that were measured in
            another way are measured again.
        methods: Other methods that each variant is measured with, by its name; none if None.
        sharing: Variants that may take each other's stages; all if None.
        evaluation: Further arguments of `run_evaluation`.

    Yields:
        The variant's name, the seed, and the content of the run's metrics.json.
    """
    # All configurations are made first, so that a mistake in the last one shows at once.
    configs = {
        (name, seed): changed(config, {**changes, "seed": seed})
        for seed in seeds
        for name, changes in variants.items()
    }
    folders = {key: os.path.join(options.work_dir, key[0], f"seed{key[1]}") for key in configs}
    for (name, seed), settings in configs.items():
        work_dir = folders[name, seed]
        others = [
            folder
            for (other, _), folder in folders.items()
            if folder != work_dir and (sharing is None or {name, other} <= {*sharing})
        ]
        reuse = ",".join(filter(None, [options.reuse, *others]))
        own = dataclasses.replace(options, work_dir=work_dir, reuse=reuse)
        # One cache for all runs: they read the same images.
        own = dataclasses.replace(own, cache_dir=_shared_cache(settings, options) or "none")
        asked = (methods or {}).get(name, ())
        yield name, seed, _run(settings, own, measure, asked, evaluation)


def _run(config, options, measure, methods, evaluation):
    """Return the content of a run's metrics.json; train and evaluate where that is not done."""
    metrics_file = os.path.join(options.work_dir, "evaluation", compare.METRICS_FILE)
    model_dir = os.path.join(options.work_dir, "model")
    trained = os.path.exists(metrics_file)
    if trained:
        run_folder.check_settings(options.work_dir, config.resolved().to_dict())
        metrics = compare.read_run(metrics_file).metrics
        # A file that does not record how it was measured counts as missing.
        alike = all(name in metrics and metrics[name] == measure[name] for name in measure)
        if alike and all(_has_method(metrics, name) for name in methods):
            return metrics
    import keras

    from gc_net.evaluation.evaluate import recorded_dataset, run_evaluation
    from gc_net.stages.runner import train

    keras.utils.clear_session()
    if not trained:
        model_dir = train(config, options)
    return run_evaluation(
        model_dir,
        recorded_dataset,
        os.path.dirname(metrics_file),
        methods=methods,
        cache=None if options.cache_dir == "none" else options.cache_dir,
        **{"report": False, **evaluation},
        **measure,
    )


def _has_method(metrics, name):
    """Return whether a method was measured in a run: as another one, or as its own."""
    known = metrics.get("methods", {})
    own = metrics.get("settings", {}).get("method") == name
    return own or name in known or f"{name}_fixed" in known


def _shared_cache(config, options):
    from gc_net.datasets import open_dataset
    from gc_net.training.data import cache_folder

    return cache_folder(options, open_dataset(config.data).split("train"), config.data)


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


def _with_weights(before, text):
    """Return the weights of loss terms with those of `text` changed, as a setting has them."""
    weights = {**before, **read_pairs(text, "loss_weights")}
    return ",".join(f"{term}={weight}" for term, weight in weights.items())


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
