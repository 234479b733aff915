import cv2
import numpy as np

from gc_net.figures import masks
from tests.processes import run_tool


def test_tool_writes_both_figures(tmp_path):
    flags = [f"--output={tmp_path / 'new'}", "--image_size=24"]
    run_tool("draw_masks", *flags).check_returncode()
    for name in ("masks_epsilon.png", "masks_learned.png"):
        assert cv2.imread(str(tmp_path / "new" / name)) is not None


def test_plot_of_a_sharper_mask_is_steeper():
    def slope(epsilon):
        plot = masks._heaviside_plot(epsilon, 100)
        inked = (plot[..., 0] < 100).any(axis=0)  # columns of the curve
        rows = [np.where(plot[:, column, 0] < 100)[0].mean() for column in np.where(inked)[0]]
        return np.abs(np.diff(rows)).max()

    assert slope(0.01) > 3 * slope(1.0)
