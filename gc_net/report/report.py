"""`report.html`: an evaluation on one page that needs nothing but itself.

The page is `template.html`, filled in here: tables by `tables`, curves and bars
by `charts`, images by `gallery`. Names of classes and files are escaped wherever they stand,
and the page forbids every script but its own.
"""

import base64
import hashlib
import importlib.resources
import os
import re
import string

import numpy as np

from gc_net.evaluation import breakdown
from gc_net.evaluation.files import write_text
from gc_net.report import charts, gallery, tables
from gc_net.report.charts import text
from gc_net.version import __version__

REPORT_FILE = "report.html"
MAX_BYTES = 5_000_000
# What tables, charts and the style may take of it; 1,000 classes take 0.3 MB.
_BYTES_BESIDE_IMAGES = 800_000
_BINS = 20


def write_report(output_dir, evaluation):
    """Write `report.html` about an `Evaluation`; return its path.

    It stays below `MAX_BYTES`, however many images were evaluated: statistics are of all of them,
    pictures of a seeded sample beside the best, median and worst cases.
    """
    path = os.path.join(output_dir, REPORT_FILE)
    write_text(path, render(evaluation))
    return path


def remove_report(output_dir):
    """Remove `report.html` where there is one."""
    path = os.path.join(output_dir, REPORT_FILE)
    if os.path.exists(path):
        os.unlink(path)


def render(evaluation):
    """Return the page as text."""
    template = importlib.resources.files("gc_net.report").joinpath("template.html")
    page = template.read_text(encoding="utf-8")
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    examples = gallery.cases(evaluation, MAX_BYTES - _BYTES_BESIDE_IMAGES)
    shown = {evaluation.labels[row] for members in examples.values() for row, _ in members}
    return string.Template(page).substitute(
        script_hash=f"sha256-{digest}",
        title=text(f"{evaluation.dataset}, {evaluation.split} split"),
        about=_about(evaluation),
        headline=tables.headline(evaluation.metrics),
        verdict=_verdict(evaluation),
        methods=tables.methods(evaluation),
        notes=tables.notes(evaluation),
        training=_training(evaluation.history),
        histogram=_histogram(evaluation),
        sizes=_sizes(evaluation),
        classes=tables.classes(evaluation, shown),
        class_options=tables.class_options(evaluation, shown),
        examples=_examples(examples),
        num_examples=sum(map(len, examples.values())),
        version=text(__version__),
    )


def _about(evaluation):
    shape = evaluation.shape.name.replace("_", " ")
    facts = {
        "Model": evaluation.model or "unnamed",
        "Shape": shape,
        "Images": f"{len(evaluation):,}",
        "Classes": f"{len(evaluation.class_names):,}",
        "Protocol": evaluation.protocol,
        "Input": f"{evaluation.image_size} px"
        + (f" of {evaluation.resize_size}" if evaluation.frame == "crop" else ""),
    }
    return "".join(
        f"<div><dt>{name}</dt><dd>{text(value)}</dd></div>" for name, value in facts.items()
    )


def _verdict(evaluation):
    """Return a sentence that sets the headline beside the best fair one of the others."""
    fair = [result for result in evaluation.methods.values() if not result.tuned]
    own = evaluation.metrics["corloc"]
    right = f"The predicted box is right in <strong>{own:.1f} %</strong> of the images."
    if not fair:
        return right
    best = max(fair, key=lambda result: result.metrics["corloc"])
    other = best.metrics["corloc"]
    relation = "above" if own >= other else "below"
    return (
        f"{right} That is {abs(own - other):.1f} points {relation} the best other method "
        "that never saw a box, "
        f"{text(best.title)} ({other:.1f} %)."
    )


def _training(history):
    """Return charts of the losses and of the accuracies of every stage."""
    figures = []
    for stage, columns in history.items():
        epochs = columns.get("epoch", np.arange(len(next(iter(columns.values())))))
        for kind, title in (("loss", "losses"), ("accuracy", "accuracies")):
            series = {
                name.replace("_", " "): values
                for name, values in columns.items()
                if name.endswith(kind)
            }
            if series:
                figures.append(
                    charts.line_chart(f"{tables.capital(stage)}: {title}", epochs, series)
                )
    if not any(figures):
        return '<p class="muted">No log of the training was found beside the model.</p>'
    return f'<div class="charts">{"".join(figures)}</div>'


def _histogram(evaluation):
    iou = evaluation.iou[np.isfinite(evaluation.iou)]
    counts, edges = np.histogram(iou, _BINS, (0, 1))
    bars = [
        ("", count, None, "good" if low > 0.499 else "bad", f"IoU {low:.2f} to {high:.2f}: {count}")
        for count, low, high in zip(counts.tolist(), edges, edges[1:], strict=False)
    ]
    labels = [f"{edge:g}" if place % 2 == 0 else "" for place, edge in enumerate(edges.round(2))]
    title = f"IoU of the predicted boxes: mean {iou.mean():.2f}, median {np.median(iou):.2f}"
    return charts.bar_chart(title, bars, x_label="IoU", y_label="images", edges=labels)


def _sizes(evaluation):
    bars = [
        (
            group.name.removesuffix(" %"),
            group.corloc,
            group.interval,
            "good",
            f"{group.name} of the image: CorLoc {group.corloc:.1f} % of {group.count:,} images",
        )
        for group in breakdown.by_size(evaluation)
    ]
    return charts.bar_chart(
        "CorLoc by object size",
        bars,
        x_label="object's box in % of the image's area",
        y_label="CorLoc in %, with 95 % intervals",
        top=100,
    )


def _examples(examples):
    return "".join(
        f'<section class="group"><h3>{title} <span class="muted">{explanation}</span></h3>'
        f'<div class="cases">{"".join(figure for _, figure in examples[key])}</div></section>'
        for key, (title, explanation) in gallery.GROUPS.items()
        if examples[key]
    )
