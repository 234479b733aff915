"""Plots as images, for papers: large type, few lines."""

import cv2
import numpy as np

from gc_net.figures.drawing import BLUE, INK, PAPER, RED
from gc_net.report.charts import ticks

_COLORS = (BLUE, RED, (24, 128, 64), (140, 64, 176), (200, 120, 0))
_RULE = (222, 222, 222)
_FONT = cv2.FONT_HERSHEY_SIMPLEX
_SHIFT = 4  # OpenCV takes coordinates in sixteenths of a pixel


def line_plot(x, series, *, x_label, y_label, height=420, width=560, limit=None):
    """Draw curves with bands around them.

    Args:
        x: [E].
        series: {name: (values [E], interval [E, 2])}.
        x_label, y_label: ASCII texts.
        height, width: Size in pixels; type and lines grow with the height.
        limit: (value, name) of a dashed line across, or None.

    Returns:
        uint8 [height, width, 3] RGB.
    """
    unit = height / 420
    plot = np.full((height, width, 3), PAPER, np.uint8)
    ends = [interval for _, interval in series.values()] + ([limit[0]] if limit else [])
    y_ticks = ticks(*_range(np.concatenate([np.ravel(end) for end in ends])))
    x_ticks = [tick for tick in ticks(*_range(x)) if min(x) <= tick <= max(x)]
    left, right, top, bottom = 62 * unit, width - 18 * unit, 62 * unit, height - 66 * unit

    def across(values):
        return left + (np.asarray(values) - min(x)) / (max(x) - min(x)) * (right - left)

    def down(values):
        share = (np.asarray(values) - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return bottom + share * (top - bottom)

    def write(text, at_x, at_y, align=0.0, color=INK):
        """Put a text at a point: its left end for `align` 0, its right end for 1."""
        scale, weight = 0.62 * unit, max(1, round(unit))
        text_width = cv2.getTextSize(text, _FONT, scale, weight)[0][0]
        origin = (round(float(at_x - align * text_width)), round(float(at_y)))
        cv2.putText(plot, text, origin, _FONT, scale, color, weight, cv2.LINE_AA)
        return text_width

    for tick in y_ticks:
        _draw(plot, [(left, down(tick)), (right, down(tick))], _RULE, unit)
        write(f"{tick:g}", left - 10 * unit, down(tick) + 6 * unit, align=1)
    for tick in x_ticks:
        write(f"{tick:g}", across(tick), bottom + 26 * unit, align=0.5)
    write(x_label, (left + right) / 2, height - 14 * unit, align=0.5)
    place = 12 * unit + write(y_label, 12 * unit, 26 * unit) + 34 * unit
    for color, (name, (values, interval)) in zip(_COLORS, series.items(), strict=False):
        band = np.concatenate(
            [
                np.stack([across(x), down(interval[:, 0])], axis=1),
                np.stack([across(x), down(interval[:, 1])], axis=1)[::-1],
            ]
        )
        plot[:] = _filled(plot, band, color)
        _draw(plot, np.stack([across(x), down(values)], axis=1), color, 2.5 * unit)
        _draw(plot, [(place, 20 * unit), (place + 26 * unit, 20 * unit)], color, 2.5 * unit)
        place += 34 * unit + write(name, place + 34 * unit, 26 * unit) + 24 * unit
    if limit:
        dash = 9 * unit
        for start in np.arange(left, right, 2 * dash):
            end = min(start + dash, right)
            _draw(plot, [(start, down(limit[0])), (end, down(limit[0]))], INK, unit)
        write(limit[1], right, down(limit[0]) - 8 * unit, align=1)
    return plot


def _range(values):
    values = np.asarray(values, np.float64)
    return float(np.nanmin(values)), float(np.nanmax(values))


def _draw(plot, points, color, width):
    fixed = np.rint((np.asarray(points, np.float64) - 0.5) * 2**_SHIFT).astype(np.int32)
    cv2.polylines(plot, [fixed[:, None]], False, color, max(1, round(width)), cv2.LINE_AA, _SHIFT)


def _filled(plot, points, color):
    fixed = np.rint((points - 0.5) * 2**_SHIFT).astype(np.int32)
    tinted = cv2.fillPoly(plot.copy(), [fixed[:, None]], color, cv2.LINE_AA, _SHIFT)
    return cv2.addWeighted(plot, 0.82, tinted, 0.18, 0)
