"""Loss curves of a run as one picture, for docs and papers."""

import os

import numpy as np

from gc_net.evaluation.results import read_history
from gc_net.figures.plots import line_plot

# What of each stage is shown; the losses only, as the rest has other units.
_SHOWN = ("loss", "area_loss", "object_loss", "background_loss")


def draw_curves(run_dir):
    """Return a picture, uint8 RGB, with one plot for each stage of a run that has a log."""
    history = read_history(os.path.join(run_dir, "model"))
    plots = []
    for stage, log in history.items():
        epochs = log["epoch"] + 1
        if len(epochs) < 2:
            continue  # one point is no curve
        series = {
            name: (log[name], np.stack([log[name]] * 2, axis=-1)) for name in _SHOWN if name in log
        }
        plots.append(line_plot(epochs, series, x_label=f"{stage}: epoch", y_label="loss"))
    if not plots:
        raise ValueError(f"No stage of the run in {run_dir} has a log of two epochs or more.")
    return np.concatenate(plots, axis=1)
