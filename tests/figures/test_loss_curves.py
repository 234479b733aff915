"""Loss curves: one plot for each stage that has a curve."""

import pytest

from gc_net.figures.loss_curves import draw_loss_curves
from gc_net.figures.plots import pixels


def write_log(folder, rows):
    folder.mkdir()
    lines = ["epoch,loss,area_loss", *(f"{epoch},{loss},0.5" for epoch, loss in enumerate(rows))]
    (folder / "log.csv").write_text("\n".join(lines) + "\n")


def test_every_stage_with_a_curve_has_its_plot(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    write_log(tmp_path / "classifier", [3.0, 2.0, 1.0])
    write_log(tmp_path / "detector", [1.0, 0.5])
    two = pixels(draw_loss_curves(tmp_path))
    write_log(tmp_path / "warmup", [1.0])
    assert pixels(draw_loss_curves(tmp_path)).shape == two.shape  # one point is no curve
    write_log(tmp_path / "classifier_fold0", [1.0, 0.5])
    three = pixels(draw_loss_curves(tmp_path))
    assert three.shape[1] * 2 == two.shape[1] * 3
    assert len(set(map(tuple, two.reshape(-1, 3).tolist()))) > 3  # something is drawn


def test_a_run_without_a_curve_is_refused(tmp_path):
    with pytest.raises(ValueError, match="two epochs or more"):
        draw_loss_curves(tmp_path)
