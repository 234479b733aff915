"""What a report shows of an evaluated image."""

import numpy as np

from gc_net.datasets import transforms
from gc_net.datasets.loading import Loader, Unreadable


def mean_color(classifier):
    """Return the colour that normalizes to zero, which masked pixels take, RGB 0–255.

    The normalizer is affine, but may mix or reorder the channels: four colours tell it all.
    """
    colors = np.concatenate([np.zeros((1, 3)), np.eye(3)]).astype(np.float32)
    normalized = np.asarray(classifier.normalize(colors[:, None, None]))[:, 0, 0]  # [4, 3]
    offset = normalized[0].astype(np.float64)
    slopes = (normalized[1:] - offset).T
    return np.clip(np.linalg.solve(slopes, -offset), 0, 255).astype(np.float32)


def image_reader(split, index, resize_size, image_size, cache):
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


def mask_renderer(model, coefficients):
    """Return a function of rows [n] to the generator's masks for them, float32 [n, S, S]."""

    def render_masks(rows):
        masks = model.generator(coefficients[np.asarray(rows)], training=False)
        return np.asarray(masks, np.float32)[..., 0]  # [n, S, S]

    return render_masks
