"""Figures of masks: how ε shapes the analytic ones, and how close the learned ones come."""

import cv2
import numpy as np

from gc_net import shapes
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


def epsilon_figure(image_size=160):
    """Draw H_ε in one dimension, and masks of every shape, for several ε (the paper's Fig. 3)."""
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


def learned_figure(image_size=160):
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
    plot = np.full((size, size, 3), 255, np.uint8)
    middle, margin = size // 2, size // 10
    cv2.line(plot, (middle, 0), (middle, size), (220, 220, 220), 1)
    cv2.line(plot, (0, middle), (size, middle), (220, 220, 220), 1)
    level = np.linspace(-2, 2, 8 * size)
    mask = 0.5 - np.arctan(level / epsilon) / np.pi
    x = (level + 2) / 4 * (size - 1)
    y = size - margin - mask * (size - 2 * margin)
    points = np.round(np.stack([x, y], axis=-1) * 2**4).astype(np.int32)
    cv2.polylines(plot, [points[:, None]], False, BLUE, 2, cv2.LINE_AA, 4)
    return plot
