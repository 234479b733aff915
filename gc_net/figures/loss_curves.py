"""Loss curves of a run as one picture, for docs and papers."""

import os
from typing import TYPE_CHECKING

from gc_net.evaluation.results import read_history

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Only the losses of each stage are shown, because the rest has other units.
_SHOWN = ("loss", "area_loss", "object_loss", "background_loss")
_WIDTH, _HEIGHT = 420, 300  # pixels of a plot
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 12, 34, 48


def draw_loss_curves(run_dir: str | os.PathLike) -> "Figure":
    """Return a matplotlib `Figure` with one plot for each stage of a run that has a log."""
    from gc_net.figures import plots

    history = read_history(os.path.join(run_dir, "model"))
    # One point is no curve.
    history = {stage: log for stage, log in history.items() if len(log["epoch"]) > 1}
    if not history:
        raise ValueError(f"No stage of the run in {run_dir} has a log of two epochs or more.")
    figure = plots.new_figure(_WIDTH * len(history), _HEIGHT)
    for number, (stage, log) in enumerate(history.items()):
        size = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        axes = plots.add_axes(figure, number * _WIDTH + _LEFT, _BOTTOM, *size)
        series = {name: log[name] for name in _SHOWN if name in log}
        plots.draw_curves(axes, log["epoch"] + 1, series)
        axes.set_xlabel(f"{stage}: epoch")
    return figure
