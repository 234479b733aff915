"""Several runs' metrics in one table, in the form of the paper's."""

import dataclasses
import json
import os
from collections.abc import Callable, Sequence

import numpy as np

from gc_net.evaluation.files import METRICS_FILE
from gc_net.evaluation.tables import METRICS
from gc_net.registry import Registry
from gc_net.tables import TABLE_FORMATS, Format

_LOCALIZATION = ("loc_err_top1", "loc_err_top5", "corloc")
# Where the dataset has masks and axes, which the paper's have not.
_FIT = ("mask_iou", "best_mask_iou", "median_angle_error")
# Rows of one table must agree in these, or their numbers mean different things.
SAME = ("dataset", "split", "protocol", "num_images", "images", "ten_crop")


@dataclasses.dataclass(frozen=True)
class Run:
    """A row's worth of metrics.

    Attributes:
        name: Name of the row.
        metrics: Content of a metrics.json.
        other_method: Whether it is of another method than GC-Net, which has no loss terms and no
            shape to tell it by: every table labels it by its name.
        path: Where it was read from, to tell runs of one name apart; None if it was not read.
    """

    name: str
    metrics: dict
    other_method: bool = False
    path: str | None = None

    @property
    def settings(self) -> dict:
        return self.metrics.get("settings", {})

    @property
    def tuned(self) -> bool:
        return self.metrics.get("tuned", False)


@dataclasses.dataclass(frozen=True)
class Form:
    """What a table shows.

    Attributes:
        labels: Headings of the leading columns.
        label: Function of a run and a table_format to the cells below them.
        columns: Keys of `METRICS`.
        group: Function of a run to what it shares with the rows of its group; other methods are one
            of their own.
        by_name: Whether rows are told apart by the names of the runs.
        more: (group, heading) of further columns, and `more_cells`, a function of a row's first run
            and a table_format to the cells below them.
    """

    labels: tuple[str, ...]
    label: Callable
    columns: tuple[str, ...]
    group: Callable = lambda run: None
    by_name: bool = False
    more: tuple[tuple[str, str], ...] = ()
    more_cells: Callable = lambda run, table_format: ()


def _method(run: Run, table_format: Format) -> tuple[str, ...]:
    return (table_format.text(run.name),)


def _losses(run: Run, table_format: Format) -> tuple[str, ...]:
    # Evaluations from before weights had names call them by Greek letters.
    settings = run.settings
    weights = settings.get("loss_weights") or {
        term: settings[name]
        for term, name in (("area", "alpha"), ("object", "beta"), ("background", "gamma"))
    }
    # In formulas the paper's terms have one letter each.
    letters = {"area": "a", "object": "o", "background": "b"}
    terms = [letters.get(term, term) for term, weight in weights.items() if weight]
    return (" + ".join(table_format.loss(term) for term in terms),)


def _geometry(run: Run, table_format: Format) -> tuple[str, ...]:
    strategy = f"{run.settings['generator'].capitalize()}-driven".replace("Learned", "Learning")
    shape = run.settings["shape"].replace("_", " ").capitalize()
    return (
        table_format.text(strategy),
        table_format.text(shape),
        table_format.flag(run.settings["rotates"]),
    )


FORMS = Registry(
    "form",
    {
        # Tables 3 and 4, 1, and 2 of the paper.
        "methods": Form(
            ("Method",), _method, ("cls_err_top1", "cls_err_top5", *_LOCALIZATION), by_name=True
        ),
        "losses": Form(("Loss functions",), _losses, (*_LOCALIZATION, *_FIT)),
        "geometries": Form(
            ("Strategy", "Geometry", "Rotation"),
            _geometry,
            (*_LOCALIZATION, *_FIT),
            group=lambda run: run.settings["generator"],
        ),
        "all": Form(("Run",), _method, tuple(METRICS), by_name=True),
    },
)


def read_run(path: str | os.PathLike, name: str | None = None) -> Run:
    """Return the `Run` in a metrics.json, or in a folder that has one or `evaluation/` with one.

    Args:
        path: File or folder; `"name=path"` names it.
        name: Name of the row; by default that of the run's folder.
    """
    path = os.fspath(path)
    if name is None and "=" in path and not os.path.exists(path):
        name, _, path = path.partition("=")
    candidates = [
        path,
        os.path.join(path, METRICS_FILE),
        os.path.join(path, "evaluation", METRICS_FILE),
    ]
    found = next((candidate for candidate in candidates if os.path.isfile(candidate)), None)
    if found is None:
        raise ValueError(
            f"There is no {METRICS_FILE} at {path!r}, nor in a folder `evaluation` there. "
            "`gc-net evaluate` writes one."
        )
    try:
        with open(found, encoding="utf-8") as file:
            metrics = json.load(file)
    except ValueError as error:
        raise ValueError(f"{found} is damaged: {error}") from None
    if name is None:
        folder = os.path.dirname(os.path.abspath(found))
        if os.path.basename(folder) == "evaluation":
            folder = os.path.dirname(folder)
        name = os.path.basename(folder)
    return Run(name, metrics, path=found)


def with_methods(run: Run) -> list[Run]:
    """Return the run and a row for each method measured with it; a star marks tuned ones."""
    rows = [run]
    # Files of earlier versions have them as "baselines".
    methods = run.metrics.get("methods", run.metrics.get("baselines", {}))
    for method in methods.values():
        title = method["title"] + (" *" if method["tuned"] else "")
        shared = {name: run.metrics.get(name) for name in SAME}
        rows.append(Run(title, {**shared, **method}, other_method=True))
    return rows


def table(
    runs: Sequence[Run],
    form: str | Form = "methods",
    table_format: str = "markdown",
    intervals: bool = False,
) -> str:
    """Return a table of runs.

    Runs with the same labels and settings, such as those of several seeds, become one row: mean ±
    standard deviation. The best value of each column is bold; what was tuned by the boxes it is
    measured with does not compete.

    Args:
        runs: List of `Run`.
        form: `"methods"`, `"losses"`, `"geometries"` or `"all"`; or a `Form`.
        table_format: `"markdown"`, `"latex"` or `"text"`.
        intervals: Whether rows of a single run show their 95 % interval.

    Raises:
        ValueError: If runs were measured otherwise, or runs of one row have other settings.
    """
    if not runs:
        raise ValueError("There is no run to make a table of.")
    _check_comparable(runs)
    form = FORMS.get(form) if isinstance(form, str) else form
    table_format = TABLE_FORMATS.get(table_format)()
    groups = {}
    for run in runs:
        groups.setdefault(_place(run, form, table_format), []).append(run)
    for members in groups.values():
        _check_one_row(members, form)
    # Rows of a group together, in the order in which the groups came.
    order = list(dict.fromkeys(group for group, _ in groups))
    keys = sorted(groups, key=lambda key: order.index(key[0]))
    columns = [name for name in form.columns if any(name in run.metrics for run in runs)]
    best = {name: _best(groups, name) for name in columns}
    rows, previous = [], None
    for key in keys:
        group, labels = key
        if rows and group != previous:
            rows.append(None)
        previous = group
        cells = [_cell(groups[key], name, best[name], table_format, intervals) for name in columns]
        rows.append([*labels, *cells, *form.more_cells(groups[key][0], table_format)])
    headings = [*(METRICS[name][:2] for name in columns), *form.more]
    return table_format.table(form.labels, headings, rows)


def statistics(runs: Sequence[Run], name: str) -> tuple[float | None, float | None]:
    """Return mean and standard deviation of a metric over runs; deviation None for one run."""
    values = [run.metrics[name] for run in runs if run.metrics.get(name) is not None]
    if not values:
        return None, None
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def _place(run, form, table_format):
    """Return the group of a run and its labels: what it shares with the others of its row."""
    if run.other_method:
        return None, (
            table_format.text(run.name),
            *[table_format.text("–")] * (len(form.labels) - 1),
        )
    return form.group(run), form.label(run, table_format)


def _best(groups, name):
    means = [statistics(runs, name)[0] for runs in groups.values() if not runs[0].tuned]
    means = [round(mean, 2) for mean in means if mean is not None]
    if len(means) < 2 or not METRICS[name].competes:
        return None
    return min(means) if METRICS[name].lower_is_better else max(means)


def _cell(runs, name, best, table_format, intervals):
    mean, deviation = statistics(runs, name)
    if mean is None:
        return table_format.text("–")
    text = f"{mean:.2f}"
    if best is not None and round(mean, 2) == best and not runs[0].tuned:
        text = table_format.bold(text)
    if deviation is not None:
        return text + table_format.text(f" ± {deviation:.2f}")
    interval = runs[0].metrics.get(f"{name}_ci95")
    if intervals and interval:
        return text + " [{:.2f}, {:.2f}]".format(*interval)
    return text


def _check_comparable(runs):
    for name in SAME:
        values = {}
        for run in runs:
            values.setdefault(run.metrics.get(name), run.name)
        if name == "images":
            values.pop(None, None)  # files from before it was recorded
        if len(values) > 1:
            found = ", ".join(f"{value} ({run})" for value, run in values.items())
            raise ValueError(
                f"These runs cannot stand in one table: they differ in {name}: {found}. "
                "Evaluate them in the same way, or make a table of each."
            )


def _check_one_row(runs, form):
    """Refuse runs of one row that are no repetitions: their mean would be of nothing."""
    for name in dict.fromkeys(name for run in runs for name in run.settings):
        values = {}
        for run in runs:
            if name in run.settings:  # not in files from before it was recorded
                values.setdefault(_plain(run.settings[name]), run.path or run.name)
        if len(values) > 1:
            found = ", ".join(f"{value} ({run})" for value, run in values.items())
            raise ValueError(
                f"These runs would become one row, and differ in {name}: {found}. "
                + ("Name them: `name=path`." if form.by_name else "Make a table of each.")
            )


def _plain(value):
    """Return a setting as it is written in a flag, e.g. the loss weights."""
    if isinstance(value, dict):
        return ",".join(f"{name}={number:g}" for name, number in sorted(value.items()))
    return value
