"""Charts as inline SVG; colours come from the style sheet of the page, so they follow its theme."""

import html
import math

import numpy as np

WIDTH, HEIGHT = 440, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 12, 42
_NUM_COLORS = 6  # .series-0 … in the style sheet


def text(value):
    """Return a value as text that is safe in HTML; a name may hold anything."""
    return html.escape(str(value).encode("utf-8", "backslashreplace").decode())


def ticks(low, high, count=5):
    """Return about `count` round numbers from at most `low` to at least `high`.

    Example:
        ticks(0.0, 0.83)  # [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        low, high = low - 0.5, low + 0.5
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) + 0.0 for number in range(first, last + 1)]


def line_chart(title, x, series, x_label="epoch"):
    """Draw curves over a common x axis.

    Args:
        title: What is shown, for the heading and for those who cannot see it.
        x: [E] numbers.
        series: {name: [E] numbers}; what is not finite leaves a gap.
        x_label: Text below the axis.
    """
    x = np.asarray(x, np.float64)
    values = np.concatenate([np.asarray(curve, np.float64) for curve in series.values()])
    finite = values[np.isfinite(values)]
    if not finite.size:
        return ""
    y_ticks = ticks(finite.min(), finite.max())
    # Epochs are whole numbers.
    x_ticks = [tick for tick in ticks(x.min(), x.max(), 6) if x.min() <= tick <= x.max()]
    x_ticks = [tick for tick in x_ticks if tick == round(tick)] or [float(x[0])]
    across = _scale((x.min(), x.max()), (_LEFT + 6, WIDTH - _RIGHT - 6))
    up = _scale((y_ticks[0], y_ticks[-1]), (HEIGHT - _BOTTOM, _TOP))
    parts = [_y_axis(y_ticks, up)]
    parts += [_label(across(tick), HEIGHT - _BOTTOM + 17, f"{tick:g}") for tick in x_ticks]
    legend, described = [], []
    for number, (name, curve) in enumerate(series.items()):
        curve = np.asarray(curve, np.float64)
        color = f"series-{number % _NUM_COLORS}"
        parts.append(_curve(across(x), up(curve), color))
        legend.append(f'<li><span class="swatch {color}"></span>{text(name)}</li>')
        known = curve[np.isfinite(curve)]
        if known.size:
            described.append(f"{name} from {known[0]:.3g} to {known[-1]:.3g}")
    parts.append(_label((_LEFT + WIDTH) / 2, HEIGHT - 6, x_label, "axis"))
    return _figure(title, "; ".join(described), parts, f'<ul class="legend">{"".join(legend)}</ul>')


def bar_chart(title, bars, *, x_label, y_label, top=None, edges=None):
    """Draw bars beside each other.

    Args:
        bars: (label, value, interval or None, class of the style sheet, hint) of each.
        x_label, y_label: Texts at the axes.
        top: Largest value of the axis; by default, of the bars.
        edges: Labels of the bars' edges, one more than bars, in place of labels below them.
    """
    y_ticks = ticks(0, max(bar[1] for bar in bars) if top is None else top)
    up = _scale((0, y_ticks[-1]), (HEIGHT - _BOTTOM, _TOP))
    pitch = (WIDTH - _LEFT - _RIGHT) / len(bars)
    gap = min(0.12 * pitch, 6)
    parts = [_y_axis(y_ticks, up)]
    for number, (label, value, interval, style, hint) in enumerate(bars):
        left, middle = _LEFT + number * pitch, _LEFT + (number + 0.5) * pitch
        parts.append(
            f'<rect class="{style}" x="{left + gap / 2:.1f}" y="{up(value):.1f}" '
            f'width="{pitch - gap:.1f}" height="{up(0) - up(value):.1f}">'
            f"<title>{text(hint)}</title></rect>"
        )
        if interval is not None:
            low, high = up(interval[0]), up(interval[1])
            parts.append(f'<path class="whisker" d="M{middle:.1f} {low:.1f}V{high:.1f}"/>')
        if edges is None:
            parts.append(_label(middle, HEIGHT - _BOTTOM + 17, label))
    for number, edge in enumerate(edges or ()):
        parts.append(_label(_LEFT + number * pitch, HEIGHT - _BOTTOM + 17, edge))
    parts.append(_label((_LEFT + WIDTH) / 2, HEIGHT - 6, x_label, "axis"))
    described = "; ".join(bar[4] for bar in bars)
    return _figure(title, described, parts, f'<p class="legend">{text(y_label)}</p>')


def _scale(domain, target):
    low, high = domain
    start, end = target
    span = high - low or 1.0

    def scaled(value):
        return start + (value - low) / span * (end - start)

    return scaled


def _y_axis(y_ticks, up):
    lines = [
        f'<path class="rule" d="M{_LEFT} {up(tick):.1f}H{WIDTH - _RIGHT}"/>'
        + _label(_LEFT - 7, up(tick) + 4, f"{tick:g}".replace("-", "−"), "end")
        for tick in y_ticks
    ]
    return "".join(lines)


def _curve(x, y, color):
    """Return a path, interrupted where y is not finite, and a dot for points that stand alone."""
    known = np.isfinite(y)
    path, dots = "", ""
    for number in np.flatnonzero(known):
        starts = number == 0 or not known[number - 1]
        path += f"{'M' if starts else 'L'}{x[number]:.1f} {y[number]:.1f}"
        if starts and (number + 1 == len(y) or not known[number + 1]):
            dots += f'<circle class="{color}" cx="{x[number]:.1f}" cy="{y[number]:.1f}" r="3"/>'
    return f'<path class="curve {color}" d="{path}"/>{dots}'


def _label(x, y, label, style="middle"):
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}">{text(label)}</text>'


def _figure(title, described, parts, legend):
    return (
        f'<figure class="chart"><figcaption>{text(title)}</figcaption>{legend}'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text(title)}. '
        f'{text(described)}">{"".join(parts)}</svg></figure>'
    )
