"""The pixels and masks of evaluated images, for reports."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gc_net.data import transforms
from gc_net.data.cache import ImageCache
from gc_net.data.loading import Loader, Unreadable
from gc_net.data.splits import Split
from gc_net.figures.drawing import denormalizer


def mean_color(classifier: Any) -> np.ndarray:
    """Return the colour that normalizes to zero, the colour of masked pixels, RGB 0–255."""
    return denormalizer(classifier.normalize)(np.zeros(3)).astype(np.float32)


def image_reader(
    split: Split, index: np.ndarray, resize_size: int, image_size: int, cache: ImageCache | None
) -> Callable[[int], np.ndarray]:
    """Return a function of a row to the pixels the network saw, uint8 [S, S, 3].

    Args:
        index: [N], the place of each row in the split.
        cache: An `ImageCache`, or None.
    """
    loader = Loader(split, resize_size, image_size, cache, Unreadable(), len(index))
    window = transforms.center_window(resize_size, image_size)

    def read_image(row):
        image, _ = loader.squashed(int(index[row]))
        return transforms.take(image, window, image_size)

    return read_image


def mask_renderer(localizer: Any, coefficients: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function of rows [n] to the generator's masks for them, float32 [n, S, S]."""

    def render_masks(rows):
        masks = localizer.generator(coefficients[np.asarray(rows)], training=False)
        return np.asarray(masks, np.float32)[..., 0]  # [n, S, S]

    return render_masks
