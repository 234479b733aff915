"""`report.html`: an evaluation on one page without other files.

The page is made from a template, `report.html`, with its style sheet and its script beside it.
`charts` makes curves and bars, `gallery` makes images. All names of classes and files are escaped,
and the page forbids every script except its own.
"""

import os
import shlex

from gc_net.evaluation import breakdown
from gc_net.evaluation.files import write_text
from gc_net.evaluation.results import Evaluation
from gc_net.evaluation.tables import COMPARED, METRICS
from gc_net.pages import render_page
from gc_net.version import __version__

REPORT_FILE = "report.html"
MAX_BYTES = 5_000_000
# Room for tables, charts and the style; 1,000 classes take 0.3 MB.
_BYTES_BESIDE_IMAGES = 800_000
_NAMED_FILES = 500
# CorLoc, the headline, first.
_TILES = ("corloc", "corloc_70", *(key for key in METRICS if not key.startswith("corloc")))
_COLUMNS = tuple(key for key in _TILES if key in COMPARED)


def write_report(output_dir: str | os.PathLike, evaluation: Evaluation) -> str:
    """Write `report.html` about an `Evaluation`; return its path.

    It stays below `MAX_BYTES` for any number of images. Statistics are of all images. Pictures are
    of a seeded sample, and of the best, median and worst cases. Without true boxes, images that the
    model is least certain of replace these cases.
    """
    path = os.path.join(output_dir, REPORT_FILE)
    write_text(path, render(evaluation))
    return path


def remove_report(output_dir: str | os.PathLike) -> None:
    """Remove `report.html` if there is one."""
    path = os.path.join(output_dir, REPORT_FILE)
    if os.path.exists(path):
        os.unlink(path)


def render(evaluation: Evaluation) -> str:
    """Return the page as text."""
    # Here, because matplotlib and jinja2 take a second to import.
    from gc_net.report import charts, gallery

    has_boxes = bool(evaluation.num_truth_boxes.any())
    examples = gallery.cases(evaluation, MAX_BYTES - _BYTES_BESIDE_IMAGES)
    shown = {evaluation.labels[row] for members in examples.values() for row, _ in members}
    groups = breakdown.by_class(evaluation)
    columns = [key for key in _COLUMNS if key in evaluation.metrics]
    return render_page(
        "gc_net.report",
        "report",
        subject=evaluation.title or "GC-Net",
        title=f"{evaluation.folder or evaluation.dataset}, {evaluation.split} split",
        about=_about(evaluation),
        has_boxes=has_boxes,
        tiles=_tiles(evaluation.metrics),
        corloc=evaluation.metrics.get("corloc"),
        rival=_rival(evaluation),
        agreement=evaluation.metrics.get("agreement"),
        next_steps=_next_steps(evaluation, has_boxes),
        columns=[METRICS[key] for key in columns],
        methods=_methods(evaluation, columns) if has_boxes else [],
        ten_crop=evaluation.metrics.get("ten_crop"),
        num_without_boxes=int((evaluation.num_truth_boxes == 0).sum()),
        unreadable=evaluation.unreadable,
        named_files=_NAMED_FILES,
        statistics=charts.statistics(evaluation),
        share_title="CorLoc" if has_boxes else "Named right",
        classes=sorted(groups, key=lambda item: (item[1].right, item[0])),
        shown=shown,
        training=charts.training(evaluation.history),
        options=sorted(
            ((label, evaluation.class_names[label]) for label in shown), key=lambda item: item[1]
        ),
        examples=[
            {"title": title, "explanation": why, "figures": [figure for _, figure in examples[key]]}
            for key, (title, why) in gallery.GROUPS.items()
            if examples.get(key)
        ],
        num_examples=sum(map(len, examples.values())),
        version=__version__,
    )


def _about(evaluation):
    generator = evaluation.metrics.get("settings", {}).get("generator")  # not of other methods
    return {
        "Model": evaluation.model or "unnamed",
        "Shape": evaluation.shape.name.replace("_", " "),
        **({"Generator": generator} if generator else {}),
        "Images": f"{len(evaluation):,}",
        "Classes": f"{len(evaluation.class_names):,}",
        "Protocol": evaluation.protocol,
        "Input": f"{evaluation.image_size} px"
        + (f" of {evaluation.resize_size}" if evaluation.frame == "crop" else ""),
    }


def _tiles(metrics):
    """Return all known metrics, each with its interval and its meaning."""
    return [
        {
            "title": METRICS[key].title.replace("-", "‑"),  # a hyphen that does not break
            "value": f"{metrics[key]:.1f}",
            "unit": "°" if key.endswith("angle_error") else " %",
            "interval": _interval(metrics, key),
            "meaning": METRICS[key].meaning,
        }
        for key in _TILES
        if key in metrics
    ]


def _interval(metrics, key):
    """Return the interval of a metric; None if it has none, as a median."""
    if f"{key}_ci95" not in metrics:
        return None
    low, high = metrics[f"{key}_ci95"]
    return f"{low:.1f} – {high:.1f}"


def _rival(evaluation):
    """Return the best method that never saw a box, to compare with the headline."""
    fair = [result for result in evaluation.methods.values() if not result.tuned]
    if not fair:
        return None
    best = max(fair, key=lambda result: result.metrics["corloc"])
    return {"title": best.title, "corloc": best.metrics["corloc"]}


def _methods(evaluation, columns):
    """Return the rows of the table: what is measured, and other methods; tuned ones are marked."""
    rows = [(evaluation.name, "own", evaluation.metrics)]
    for result in evaluation.methods.values():
        rows.append((result.title, "is-tuned" if result.tuned else "", result.metrics))
    return [
        {"name": name, "style": style, "cells": _cells(found, columns)}
        for name, style, found in rows
    ]


def _cells(metrics, columns):
    return [
        {
            "value": metrics[key],
            "interval": _interval(metrics, key),
            "is_corloc": key == "corloc",
        }
        if key in metrics
        else None
        for key in columns
    ]


def _next_steps(evaluation, has_boxes):
    """Return commands for the next steps with such a model."""
    if not evaluation.model or evaluation.title:
        return []  # the commands below need a detector
    model = shlex.quote(f"--model={evaluation.model}")
    steps = [
        {
            "why": "Draw shapes in other photos, and look at some",
            "command": f"gc-net predict {model} --images=photos --output=labels --previews=50",
        }
    ]
    longer = _longer(evaluation)
    if longer:
        steps.insert(0, {"why": "Train twice as long, on the same classifier", "command": longer})
    if not has_boxes:
        steps += [
            {
                "why": "Measure the boxes, with the true boxes of some images in a file",
                "command": f"gc-net evaluate {model} --boxes=boxes.csv",
            },
            {
                "why": "See without boxes whether the detector looks at the image at all",
                "command": f"gc-net diagnose {model}",
            },
        ]
    return steps


def _longer(evaluation):
    """Return the command that trains longer where shapes hardly follow the images, or None."""
    from gc_net.evaluation.agreement import HARDLY, way_gone
    from gc_net.stages.run_folder import read_settings

    agreement, run_dir = evaluation.metrics.get("agreement"), os.path.dirname(evaluation.model)
    settings = read_settings(run_dir)
    if settings is None or not agreement or way_gone(agreement) >= HARDLY:
        return None
    flags = [
        f"--{stage}_{length}={2 * settings[stage][length]}"
        for stage in ("warmup", "detector")
        for length in ("epochs", "steps", "min_steps", "max_steps")
        if settings.get(stage, {}).get(length)
    ]
    places = [f"--reuse={run_dir}", f"--work_dir={run_dir}_longer"]
    return shlex.join(["gc-net", "train", *places, *flags])
