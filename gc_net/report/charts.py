"""The charts of a report, as SVG that follows the theme of the page."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from matplotlib.ticker import MaxNLocator

from gc_net.evaluation import breakdown
from gc_net.evaluation.results import Evaluation
from gc_net.figures import plots
from gc_net.report.gallery import sureness

WIDTH, HEIGHT = 440, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 12, 42
_BINS = 20


class Chart(NamedTuple):
    """Attributes:
    title: What is shown.
    svg: The drawing.
    legend: Names of the series, in the order of the style sheet's colours.
    y_label: Meaning of the height of bars, instead of a legend.
    """

    title: str
    svg: Markup
    legend: Sequence[str] = ()
    y_label: str = ""


def training(history: Mapping[str, Mapping[str, np.ndarray]]) -> list[Chart]:
    """Return charts of the losses and of the accuracies of every stage."""
    charts = []
    for stage, columns in history.items():
        epochs = columns.get("epoch", np.arange(len(next(iter(columns.values())))))
        epochs = np.asarray(epochs) + 1  # as training counts them on the screen
        for kind, title in (("loss", "losses"), ("accuracy", "accuracies")):
            series = {
                name.replace("_", " "): values
                for name, values in columns.items()
                if name.endswith(kind) and np.isfinite(values).any()
            }
            if series:
                charts.append(
                    line_chart(f"{stage[:1].upper()}{stage[1:]}: {title}", epochs, series)
                )
    return charts


def statistics(evaluation: Evaluation) -> list[Chart]:
    """Return charts of how boxes fit; without true boxes, charts of the predicted boxes."""
    if evaluation.num_truth_boxes.any():
        charts = [_iou_histogram(evaluation), _by_size(evaluation)]
        found = evaluation.metrics.get("confidence")
        return [*charts, _by_confidence(found)] if found else charts
    name, sure = sureness(evaluation)
    title = "Confidence" if name == "confidence" else "Probability of the image's own class"
    return [
        _area_histogram(evaluation),
        _share_histogram(
            f"{title}: mean {sure.mean():.2f}",
            sure,
            "confidence" if name == "confidence" else "probability",
        ),
    ]


def line_chart(title: str, x: Sequence[float], series: Mapping[str, Sequence[float]]) -> Chart:
    """Return curves over the epochs."""
    figure, axes = _new("epoch")
    # Epochs are whole numbers.
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    plots.draw_curves(axes, x, series, legend=False)
    if len(x) == 1:
        axes.set_xlim(x[0] - 1, x[0] + 1)
    described = []
    for name, values in series.items():
        known = np.asarray(values)[np.isfinite(values)]
        described.append(f"{name} from {known[0]:.3g} to {known[-1]:.3g}")
    svg = plots.inline_svg(figure, f"{title}. {'; '.join(described)}")
    return Chart(title, Markup(svg), legend=tuple(series))


def bar_chart(
    title: str,
    heights: Sequence[float],
    hints: Sequence[str],
    x_label: str,
    y_label: str,
    **options: Any,
) -> Chart:
    """Return bars; `options` are those of `plots.draw_bars`."""
    figure, axes = _new(x_label)
    plots.draw_bars(axes, heights, **options)
    names = {f"bar-{number}": hint for number, hint in enumerate(hints)}
    svg = plots.inline_svg(figure, f"{title}. {'; '.join(hints)}", names)
    return Chart(title, Markup(svg), y_label=y_label)


def _new(x_label):
    figure = plots.new_figure(WIDTH, HEIGHT, paper=False)
    size = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    axes = plots.add_axes(figure, _LEFT, _BOTTOM, *size)
    axes.set_xlabel(x_label)
    return figure, axes


def _iou_histogram(evaluation):
    iou = evaluation.iou[np.isfinite(evaluation.iou)]
    title = f"IoU of the predicted boxes: mean {iou.mean():.2f}, median {np.median(iou):.2f}"
    return _share_histogram(title, iou, "IoU", good=lambda low: low > 0.499)


def _area_histogram(evaluation):
    boxes = np.clip(np.nan_to_num(evaluation.boxes_rel_xyxy), 0, 1)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    title = f"Share of the image that a box covers: mean {areas.mean():.2f}"
    return _share_histogram(title, areas, "share")


def _share_histogram(title, values, name, good=lambda low: True):
    counts, edges = np.histogram(values, _BINS, (0, 1))
    lows, highs = edges[:-1], edges[1:]
    return bar_chart(
        title,
        counts.tolist(),
        [
            f"{name} {low:.2f} to {high:.2f}: {count}"
            for count, low, high in zip(counts.tolist(), lows, highs, strict=True)
        ],
        name,
        "images",
        styles=["good" if good(low) else "bad" for low in lows],
        edges=[f"{edge:g}" if place % 2 == 0 else "" for place, edge in enumerate(edges.round(2))],
    )


def _by_size(evaluation):
    groups = breakdown.by_size(evaluation)
    return bar_chart(
        "CorLoc by object size",
        [group.right for group in groups],
        [
            f"{group.name} of the image: CorLoc {group.right:.1f} % of {group.count:,} images"
            for group in groups
        ],
        "object's box in % of the image's area",
        "CorLoc in %, with 95 % intervals",
        styles=["good"] * len(groups),
        labels=[group.name.removesuffix(" %") for group in groups],
        intervals=[group.interval for group in groups],
        top=100,
    )


def _by_confidence(found):
    """Return CorLoc by fifths of confidence, from what `ranking` found."""
    fifths = found["fifths"]
    title = "CorLoc by confidence"
    if found["auroc"] is not None:
        title += f": AUROC {found['auroc']:.2f}"
    hits = [round(part["corloc"] * part["num_images"] / 100) for part in fifths]
    ranges = ["{:.2f}–{:.2f}".format(*part["confidence"]) for part in fifths]
    return bar_chart(
        title,
        [part["corloc"] for part in fifths],
        [
            f"confidence {name}: CorLoc {part['corloc']:.1f} % of {part['num_images']:,} images"
            for name, part in zip(ranges, fifths, strict=True)
        ],
        "fifths of the images by confidence, the least certain first",
        "CorLoc in %, with 95 % intervals",
        styles=["good"] * len(fifths),
        labels=ranges,
        intervals=[
            breakdown.wilson_interval(count, part["num_images"])
            for count, part in zip(hits, fifths, strict=True)
        ],
        top=100,
    )
