"""Plots: curves and bars by matplotlib, as pixels, as PDF, and as SVG for web pages.

`Figure`s are made and drawn without pyplot, so they share no state and need no display.
"""

import io
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from html import escape

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gc_net.figures.drawing import BLUE, INK, PAPER, RED

# Colours of the series, in order. A web page has its own colours, see `inline_svg`.
COLORS = (BLUE, RED, (24, 128, 64), (140, 64, 176), (200, 120, 0), (120, 120, 120))
_RULE = (222, 222, 222)
_STYLE = {
    "font.size": 12,
    "text.parse_math": False,  # a name may hold a dollar sign
    "axes.edgecolor": "none",
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "gc_net",  # the same file each time
    "pdf.fonttype": 42,
}
_DOTS_PER_INCH = 72  # so that a pixel is a point


def hex_color(color: Sequence[int]) -> str:
    """Return an RGB colour in 0–255 in matplotlib's form."""
    return "#" + "".join(f"{value:02x}" for value in color)


def new_figure(width: float, height: float, paper: bool = True) -> Figure:
    """Return an empty `Figure` of a size in pixels."""
    with matplotlib.rc_context(_STYLE):
        return Figure(
            figsize=(width / _DOTS_PER_INCH, height / _DOTS_PER_INCH),
            dpi=_DOTS_PER_INCH,
            facecolor=hex_color(PAPER) if paper else "none",
        )


def add_axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Return new axes at a place in pixels, with rules at the y ticks and no frame."""
    across, up = figure.get_size_inches() * _DOTS_PER_INCH
    with matplotlib.rc_context(_STYLE):
        axes = figure.add_axes([left / across, bottom / up, width / across, height / up])
        axes.set_facecolor("none")
        axes.set_axisbelow(True)
        axes.grid(axis="y", color=hex_color(_RULE), linewidth=1, gid="rule", clip_on=False)
        axes.tick_params(length=0, pad=7, labelcolor=hex_color(INK))
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    return axes


def draw_curves(
    axes: Axes,
    x: Sequence[float],
    series: Mapping[str, Sequence[float]],
    *,
    intervals: Mapping[str, np.ndarray] | None = None,
    limit: tuple[float, str] | None = None,
    legend: bool = True,
) -> None:
    """Draw curves over a common x axis.

    Args:
        axes: Where, see `add_axes`.
        x: [E].
        series: {name: [E]}. A value that is not finite leaves a gap; a single point is a dot.
        intervals: {name: [E, 2]} of bands around the curves of these names.
        limit: Value and name of a dashed horizontal line.
        legend: Whether to write the names above the axes.
    """
    x = np.asarray(x, np.float64)
    handles = []
    with matplotlib.rc_context(_STYLE):
        for number, (name, values) in enumerate(series.items()):
            values = np.asarray(values, np.float64)
            values = np.where(np.isfinite(values), values, np.nan)
            color = hex_color(COLORS[number % len(COLORS)])
            style = f"series-{number % len(COLORS)}"
            if intervals and name in intervals:
                band = np.asarray(intervals[name])
                axes.fill_between(x, band[:, 0], band[:, 1], color=color, alpha=0.18, linewidth=0)
            handles += axes.plot(
                x, values, color=color, linewidth=2, gid=f"curve {style}", clip_on=False
            )
            alone = np.isfinite(values)
            alone &= ~np.append(np.isfinite(values[1:]), False)
            alone &= ~np.append(False, np.isfinite(values[:-1]))
            for place in np.flatnonzero(alone):
                # Not a marker, which in SVG is a reference to a definition elsewhere.
                axes.annotate(
                    "●", (x[place], values[place]), color=color, fontsize=8, ha="center",
                    va="center", gid=f"dot {style}", annotation_clip=False,
                )  # fmt: skip
        if limit:
            axes.axhline(limit[0], color=hex_color(INK), linewidth=1, dashes=(6, 4))
            axes.annotate(
                limit[1], (1, limit[0]), xycoords=("axes fraction", "data"), xytext=(0, 4),
                textcoords="offset points", ha="right",
            )  # fmt: skip
        axes.margins(x=0.015, y=0.06)
        if legend:
            axes.legend(
                handles, [name.strip("_") for name in series], loc="lower left", frameon=False,
                bbox_to_anchor=(-0.02, 1.0), ncols=len(series), columnspacing=1.4,
                handlelength=1.6,
            )  # fmt: skip


def draw_bars(
    axes: Axes,
    heights: Sequence[float],
    *,
    styles: Sequence[str],
    labels: Sequence[str] | None = None,
    edges: Sequence[str] | None = None,
    intervals: Sequence[tuple[float, float]] | None = None,
    top: float | None = None,
) -> None:
    """Draw bars next to each other, the first from 0 to 1 on the x axis.

    Args:
        axes: Where, see `add_axes`.
        heights: [B].
        styles: [B] names, which are classes in a web page; bar b is called `"bar-b"`.
        labels: [B] texts below the bars.
        edges: [B + 1] texts below the bars' edges, instead of `labels`.
        intervals: [B] pairs, drawn as lines.
        top: Largest value of the y axis.
    """
    count = len(heights)
    with matplotlib.rc_context(_STYLE):
        bars = axes.bar(
            np.arange(count) + 0.5, heights, width=0.88, color=hex_color(BLUE), clip_on=False
        )
        for number, (bar, style) in enumerate(zip(bars, styles, strict=True)):
            bar.set_gid(f"bar-{number} {style}")
        for number, interval in enumerate(intervals or ()):
            axes.plot(
                [number + 0.5] * 2, interval, color=hex_color(INK), linewidth=1.5, gid="whisker",
                clip_on=False, solid_capstyle="butt",
            )  # fmt: skip
        axes.set_xlim(0, count)
        axes.set_ylim(0, top)
        if np.issubdtype(np.asarray(heights).dtype, np.integer):  # counts
            axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], integer=True))
        ticks = np.arange(count) + 0.5 if edges is None else np.arange(count + 1)
        axes.set_xticks(ticks, labels if edges is None else edges)


def pixels(figure: Figure, dots_per_inch: float = _DOTS_PER_INCH) -> np.ndarray:
    """Return a figure as an image, uint8 RGB [H, W, 3]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with matplotlib.rc_context(_STYLE):
        figure.set_dpi(dots_per_inch)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def encode(figure: Figure, kind: str, dots_per_inch: float) -> bytes:
    """Return a figure as a file: `kind` is `"pdf"`, `"svg"` or `"png"`."""
    buffer = io.BytesIO()
    dates = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    with matplotlib.rc_context(_STYLE):
        figure.savefig(buffer, format=kind, dpi=dots_per_inch, metadata=dates.get(kind))
    return buffer.getvalue()


def inline_svg(figure: Figure, description: str, hints: Mapping[str, str] | None = None) -> str:
    """Return a figure as an `<svg>` for a web page, whose style sheet sets the colours.

    An element with a `gid` in the figure gets it as its class instead of a colour. So a chart
    follows the theme of the page. Only paths and texts of matplotlib's file are kept.

    Args:
        figure: A `Figure` without clipped parts or markers.
        description: Text for readers who cannot see the figure.
        hints: {class: text} to show when the mouse rests on an element of that class.
    """
    root = ElementTree.fromstring(encode(figure, "svg", _DOTS_PER_INCH))
    names = {child: parent for parent in root.iter() for child in parent}
    parts = []
    for element in root.iter():
        tag = element.tag.rpartition("}")[2]
        style = element.get("style", "")
        if tag == "text":
            anchor = re.search(r"text-anchor: (\w+)", style)
            attributes = {
                "class": _class(names[element]),
                "text-anchor": anchor and anchor.group(1),
                "x": _short(element.get("x")),
                "y": _short(element.get("y")),
            }
            parts.append(_element("text", attributes, escape(element.text or "")))
        elif tag == "path" and (name := _class(names[element])):
            hint = next((text for key, text in (hints or {}).items() if key in name.split()), "")
            title = hint and _element("title", {}, escape(hint))
            parts.append(_element("path", {"class": name, "d": _short(element.get("d"))}, title))
    width, height = figure.get_size_inches() * _DOTS_PER_INCH
    attributes = {"viewBox": f"0 0 {width:g} {height:g}", "role": "img", "aria-label": description}
    return _element("svg", attributes, "".join(parts))


def _class(group):
    """Return the `gid` of a group; matplotlib's own names end in a number, as `line2d_3` does."""
    name = group.get("id", "")
    return "" if re.fullmatch(r"[\w.]+_\d+", name) else name


def _element(tag, attributes, content):
    written = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items() if value)
    return f"<{tag}{written}>{content}</{tag}>"


def _short(numbers):
    """Round to tenths of a pixel, and leave out the spaces that SVG does not need."""
    rounded = re.sub(r"-?\d+\.\d+", lambda match: f"{float(match.group()):.1f}", numbers)
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", rounded).strip()
