"""The table of a comparison: a row for each method and each way to choose its threshold."""

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from gc_net import methods as all_methods
from gc_net.evaluation.files import write_json, write_text
from gc_net.experiments import compare
from gc_net.experiments.compare import Form, Run
from gc_net.experiments.published import PUBLISHED_ONLY, published
from gc_net.methods import GC_NET, METHODS

# Titles of rivals outside of the registry, see `gc_net.experiments.rivals.presets`.
TITLES = {GC_NET: "GC-Net", "gc_net_plain": "GC-Net, the paper's losses alone", "psol": "PSOL"}
_COLUMNS = (
    "cls_err_top1",
    "cls_err_top5",
    "loc_err_top1",
    "loc_err_top5",
    "corloc",
    "max_box_acc_v2",
    "mask_iou",
    "angle_error",
)
# Kinds of a method's scores, and the source of their threshold.
_THRESHOLDS = {
    "fixed": "its authors'",
    "chosen": "chosen without boxes",
    "best": "by the test boxes *",
}
_NONE = "–"


def title_of(name: str) -> str:
    """Return the name of a method in the table."""
    return TITLES[name] if name in TITLES else all_methods.get(name).title


def needs_threshold(name: str) -> bool:
    """Return whether a method cuts heat maps at some level."""
    from gc_net.methods.base import HeatMapMethod

    return name in METHODS and isinstance(all_methods.get(name), HeatMapMethod)


def rows_of(name: str, runs: Sequence[tuple[int, Mapping[str, Any]]]) -> list[Run]:
    """Return the `Run`s of a method: one for each of its runs and of its thresholds.

    Args:
        name: Of a method, or of `TITLES`.
        runs: (seed, content of a metrics.json) of each.
    """
    rows = []
    for seed, metrics in runs:
        for kind, values in scores_of(name, metrics).items():
            title, threshold = title_of(name), _NONE
            if needs_threshold(name):
                threshold = _THRESHOLDS[kind]
            elif kind == "best":
                title += ", the best *"
            rows.append(
                Run(
                    title,
                    {
                        **{key: metrics.get(key) for key in compare.SAME},
                        **values,
                        "settings": metrics.get("settings", {}),
                        "method": name,
                        "threshold": threshold,
                        "tuned": kind == "best",
                        "seed": seed,
                    },
                )
            )
    # First all seeds of the authors' threshold, last those of the test boxes' threshold.
    order = [_NONE, *_THRESHOLDS.values()]
    return sorted(rows, key=lambda row: (row.tuned, order.index(row.metrics["threshold"])))


def scores_of(name: str, metrics: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the scores of a method in the metrics of its run: "fixed", "chosen" and "best".

    Args:
        name: Of a method, or of `TITLES`.
        metrics: Content of the `metrics.json` of its run.
    """
    classes = {key: metrics[key] for key in ("cls_err_top1", "cls_err_top5") if key in metrics}
    is_own = metrics.get("settings", {}).get("method", GC_NET) == name or name in TITLES
    found = {"fixed": metrics} if is_own else {}
    for kind in _THRESHOLDS:
        measured = metrics.get("methods", {}).get(f"{name}_{kind}")
        if measured is not None and name in METHODS:
            found[kind] = {**classes, **measured}
    if not found and name in metrics.get("methods", {}):
        found["fixed"] = {**classes, **metrics["methods"][name]}
    keys = (*_COLUMNS, *(f"{key}_ci95" for key in _COLUMNS))
    return {
        kind: {key: values[key] for key in keys if key in values} for kind, values in found.items()
    }


def _label(run, table_format):
    return table_format.text(run.name), table_format.text(run.metrics["threshold"])


def _published(run):
    settings = run.settings
    return published(run.metrics["dataset"], run.metrics["method"], settings.get("backbone", ""))


def _published_cells(run, table_format):
    # Once for each method.
    own = not run.tuned and run.metrics["threshold"] != _THRESHOLDS["chosen"]
    row = _published(run) if own else None
    if row is None:
        return [table_format.text(_NONE)] * 3
    numbers = [row.loc_err_top1, row.corloc]
    numbers = [table_format.text(_NONE) if value is None else f"{value:.2f}" for value in numbers]
    return [*numbers, table_format.text(f"{row.network}, {row.source}")]


def _form(rows):
    known = any(_published(row) is not None for row in rows)
    more = (("published", "LocErr top-1"), ("published", "CorLoc"), ("published", "with"))
    published_too = {"more": more, "more_cells": _published_cells} if known else {}
    return Form(("Method", "Threshold"), _label, _COLUMNS, by_name=True, **published_too)


def write_tables(work_dir: str | os.PathLike, rows: Sequence[Run], complete: bool = True) -> str:
    """Write comparison.md, .tex, .csv and .json; return the Markdown table.

    Args:
        work_dir: Folder to write to.
        rows: The results of `rows_of` for all methods; methods known only from publications are
            added.
        complete: Whether these are all runs; if not, the table says so.
    """
    first = rows[0].metrics
    shared = {key: first[key] for key in compare.SAME}
    only = [
        Run(title, {**shared, "method": name, "threshold": _NONE})
        for name, title in PUBLISHED_ONLY.items()
        if published(first["dataset"], name)
    ]
    form = _form([*rows, *only])
    notes = [
        f"{first['num_images']:,} images of {first['dataset']} ({first['split']}), protocol "
        f"{first['protocol']}; percentages, mean ± standard deviation over the seeds.",
        "\\* chosen by the boxes of these same images: an upper bound, which does not compete.",
    ]
    if form.more:
        notes.append("Published figures are of other networks, images and epochs.")
    if not complete:
        notes.append("Not all runs are done yet.")
    markdown = compare.table([*rows, *only], form, "markdown")
    text = "\n".join([markdown, "", *(f"{note}\n" for note in notes)])
    write_text(os.path.join(work_dir, "comparison.md"), text)
    latex = compare.table([*rows, *only], form, "latex")
    write_text(os.path.join(work_dir, "comparison.tex"), latex + "\n")
    records = _records([*rows, *only])
    write_json(os.path.join(work_dir, "comparison.json"), records)
    write_text(os.path.join(work_dir, "comparison.csv"), _csv(records))
    return text


def _records(rows):
    """Return a dict for each row of the table: means, deviations, and the values of each seed."""
    groups = {}
    for row in rows:
        groups.setdefault((row.name, row.metrics["threshold"]), []).append(row)
    records = []
    for (title, threshold), members in groups.items():
        record = {
            "method": members[0].metrics["method"],
            "title": title,
            "threshold": threshold,
            "tuned": members[0].tuned,
            "seeds": [row.metrics["seed"] for row in members if "seed" in row.metrics],
        }
        for key in _COLUMNS:
            mean, deviation = compare.statistics(members, key)
            if mean is not None:
                values = [row.metrics.get(key) for row in members]
                record[key] = {"mean": mean, "std": deviation, "values": values}
        row = _published(members[0])
        record["published"] = None if row is None else row._asdict()
        records.append(record)
    return records


def _csv(records):
    """Return the records as a table with a line for each."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = [f"{key}_{part}" for key in _COLUMNS for part in ("mean", "std")]
    writer.writerow(["method", "threshold", "tuned", "seeds", *names, "published"])
    for record in records:
        values = [record.get(key, {}).get(part) for key in _COLUMNS for part in ("mean", "std")]
        seeds = " ".join(map(str, record["seeds"]))
        told = json.dumps(record["published"]) if record["published"] else ""
        head = [record["method"], record["threshold"], record["tuned"], seeds]
        writer.writerow([*head, *("" if value is None else value for value in values), told])
    return file.getvalue()
