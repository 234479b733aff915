"""Figures of masks: analytic ones for several ε, and learned ones beside exact ones."""

import numpy as np

from gc_net import shapes
from gc_net.figures import plots
from gc_net.figures.drawing import BLUE, grid, mask_image
from gc_net.generators.learned import LearnedGenerator, shipped_weights
from gc_net.generators.model import ModelGenerator
from gc_net.generators.networks import NETWORKS

EPSILONS = (1.0, 0.3, 0.1, 0.03, 0.01)

# Inside, turned, crossing the border, as large as the image, small, narrow: cx, cy, w, h, angle.
EXAMPLES = np.array(
    [
        [0.50, 0.50, 0.60, 0.35, 0.0],
        [0.45, 0.55, 0.70, 0.30, 0.6],
        [0.85, 0.20, 0.60, 0.45, -0.8],
        [0.50, 0.50, 1.00, 0.95, 0.3],
        [0.30, 0.65, 0.10, 0.07, 1.2],
        [0.55, 0.45, 0.85, 0.10, -0.4],
    ],
    "float32",
)


def epsilon_figure(image_size: int = 160) -> np.ndarray:
    """Draw H_ε in one dimension, and masks of every shape, for several ε (the paper's Fig. 4)."""
    images, captions = [], []
    for epsilon in EPSILONS:
        images.append(_heaviside_plot(epsilon, image_size))
        captions.append(f"ε = {epsilon:g}")
    for name in shapes.SHAPES:
        for epsilon in EPSILONS:
            generator = ModelGenerator(name, image_size, epsilon=epsilon)
            coefficients = EXAMPLES[1:2, : generator.shape.num_coefficients]
            images.append(mask_image(np.asarray(generator(coefficients))[0]))
            captions.append(name.replace("_", " "))
    return grid(images, len(EPSILONS), captions)


def learned_figure(image_size: int = 160) -> np.ndarray:
    """Draw masks of the learned generators whose weights are shipped beside the exact ones."""
    images, captions = [], []
    for name in shapes.SHAPES:
        shape = shapes.get(name)
        coefficients = EXAMPLES[:, : shape.num_coefficients]
        rows = {"exact": np.asarray(shape.masks(coefficients, image_size, image_size))}
        for network in NETWORKS:
            if shipped_weights(name, network):
                generator = LearnedGenerator(shape, image_size, network=network)
                rows[network] = np.asarray(generator(coefficients))
        for row, masks in rows.items():
            images += [mask_image(mask) for mask in masks]
            captions += [f"{name.replace('_', ' ')}: {row}"] * len(masks)
    return grid(images, len(EXAMPLES), captions)


def _heaviside_plot(epsilon, size):
    """Plot M = ½ − arctan(φ/ε)/π for φ from −2 to 2, with lines at φ = 0 and M = ½."""
    figure = plots.new_figure(size, size)
    axes = figure.add_axes([0, 0, 1, 1], xlim=(-2, 2), ylim=(-0.125, 1.125))
    axes.set_axis_off()
    axes.axvline(0, color="0.86", linewidth=1)
    axes.axhline(0.5, color="0.86", linewidth=1)
    level = np.linspace(-2, 2, 8 * size)
    curve = 0.5 - np.arctan(level / epsilon) / np.pi
    axes.plot(level, curve, color=plots.hex_color(BLUE), linewidth=2)
    return plots.pixels(figure)
