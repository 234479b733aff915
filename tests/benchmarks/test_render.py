"""Rendering is compared with the same masks drawn by OpenCV."""

import numpy as np
import pytest

from benchmarks import render
from benchmarks.rounds import Timings
from gc_net import shapes


def test_every_way_has_a_row_for_every_shape(monkeypatch):
    monkeypatch.setattr(render, "copy_rate", lambda rounds: 1e9)
    _, table, bound = render.report(image_sizes=[16, 8], batch_size=4, rounds=1)
    rows = [line.split(" | ") for line in table.splitlines()[2:]]
    assert len(rows) == 2 * 5 * len(shapes.SHAPES.names)
    loop = [row for row in rows if row[2] == render.CALLS]
    assert all("1.00×" in row[5] for row in loop)
    # The bound is for the larger masks, and for what OpenCV takes longest for.
    opencv = max(float(row[4]) for row in loop if row[1] == "16")
    assert "1,024 bytes" in bound and f"takes {opencv:.1f} µs:" in bound


def test_the_bound_is_what_writing_the_mask_leaves_of_opencvs_time():
    line = render.bound(image_size=50, opencv_seconds=10e-6, bytes_a_second=4e9)
    assert "4.0 GB/s" in line
    assert "10,000 bytes" in line and "written in 2.5 µs" in line
    assert "at most 4.0 times" in line and "would need 50 GB/s" in line


def test_the_copy_rate_counts_what_is_read_and_what_is_written(monkeypatch):
    seconds = np.array([0.5, 0.25, 1.0])
    timings = Timings({"copy": seconds}, {"copy": seconds})
    monkeypatch.setattr(render, "in_turn", lambda ways, rounds: timings)
    assert render.copy_rate(rounds=3, megabytes=1) == 4 * 2**20


@pytest.mark.parametrize("name", shapes.SHAPES.names)
def test_opencv_draws_the_masks_that_the_graph_draws(name):
    shape = shapes.get(name)
    coefficients = shape.sample(32, (0, 0), "reference")
    points = render._points(shape, coefficients, 64)
    drawn = np.stack([render.draw(outline, 64) for outline in points]) > 0
    exact = np.asarray(shape.masks(coefficients, 64, 64)) > 0
    # OpenCV also fills the pixels that the outline runs through.
    assert (exact & ~drawn).mean() < 0.005
    assert (drawn & exact).sum() / (drawn | exact).sum() > 0.9
