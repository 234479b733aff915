"""Rendering is compared with the same masks drawn by OpenCV."""

import numpy as np
import pytest

from gc_net import shapes
from gc_net.benchmarks import render


def test_every_way_has_a_row_for_every_shape():
    _, table = render.report(image_sizes=[16], batch_size=4, rounds=1)
    rows = [line.split(" | ") for line in table.splitlines()[2:]]
    assert len(rows) == 7 * len(shapes.SHAPES.names)
    loop = [row for row in rows if row[2] == render.CALLS]
    assert all("1.00×" in row[5] for row in loop)


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
