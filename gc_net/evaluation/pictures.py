"""What a report shows of an evaluated image."""

import numpy as np

from gc_net.datasets import transforms


def mean_color(classifier):
    """Return the colour that normalizes to zero, which masked pixels take, RGB 0–255.

    The normalizer is affine, but may mix or reorder the channels: four colours tell it all.
    """
    colors = np.concatenate([np.zeros((1, 3)), np.eye(3)]).astype(np.float32)
    normalized = np.asarray(classifier.normalize(colors[:, None, None]))[:, 0, 0]  # [4, 3]
    offset = normalized[0].astype(np.float64)
    slopes = (normalized[1:] - offset).T
    return np.clip(np.linalg.solve(slopes, -offset), 0, 255).astype(np.float32)


def image_reader(data, index, resize_size, image_size, cache):
    window = transforms.center_window(resize_size, image_size)

    def read_image(row):
        place = int(index[row])
        stored = cache.get(place) if cache else None
        image = transforms.squash(data.read(place), resize_size) if stored is None else stored[0]
        return transforms.take(image, window, image_size)

    return read_image


def mask_renderer(model, coefficients):
    def render_masks(rows):
        masks = model.generator(coefficients[np.asarray(rows)], training=False)
        return np.asarray(masks, np.float32)[..., 0]  # [n, S, S]

    return render_masks
