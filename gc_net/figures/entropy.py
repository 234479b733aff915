"""The classifier's certainty about masked images by size of the mask (the paper's Fig. 5).

The background loss depends on it: when a mask covers the whole object, the classifier knows nothing
about the rest, and its entropy is highest.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gc_net import metrics, shapes
from gc_net.data import transforms
from gc_net.data.splits import DataError, Split, Truth
from gc_net.figures.drawing import denormalizer, grid, resize
from gc_net.figures.figure import Layout
from gc_net.figures.grids import scenes, squashed
from gc_net.masking import inside_and_outside

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALES = np.linspace(0.0, 2.0, 21)
_SHOWN = (0.4, 0.7, 1.0, 1.3, 1.6)
_BATCH_SIZE = 32


def masked(
    classifier: Any, images: np.ndarray, boxes_rel_xyxy: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mask images by their boxes, scaled about the middle.

    Args:
        images: uint8 [B, S, S, 3].
        boxes_rel_xyxy: [B, 4].
        scale: Factor of width and height; at 0 there is no mask.

    Returns:
        Normalized object and background images.
    """
    boxes = np.asarray(boxes_rel_xyxy, np.float32)
    middle, extent = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    coefficients = np.concatenate([middle, extent * scale], axis=1).astype(np.float32)
    masks = np.asarray(shapes.get("rectangle").masks(coefficients, *images.shape[1:3]))
    masks = masks * (scale > 0)
    inside, outside = inside_and_outside(classifier.normalize(images), masks)
    return np.asarray(inside), np.asarray(outside)


def entropies(
    classifier: Any,
    images: np.ndarray,
    boxes_rel_xyxy: np.ndarray,
    scales: Sequence[float] = SCALES,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the entropy of the classifier's output, in nats.

    Returns:
        Two arrays [N, T]: for object and background images at each of T scales.
    """
    found = np.empty((2, len(images), len(scales)))
    for start in range(0, len(images), _BATCH_SIZE):
        part = slice(start, start + _BATCH_SIZE)
        for number, scale in enumerate(scales):
            both = np.concatenate(masked(classifier, images[part], boxes_rel_xyxy[part], scale))
            logits = np.asarray(classifier.from_normalized(both, training=False), np.float64)
            found[:, part, number] = _entropy(logits).reshape(2, -1)
    return found[0], found[1]


def entropy_figure(
    models: Mapping[str, Any], split: Split, truth: Truth | None, layout: Layout
) -> "Figure":
    """Draw one image masked at several scales, and the entropy over all scales.

    Args:
        models: {name: `Localizer`} with one entry, whose classifier is used.
        split, truth: Images, and their boxes, which are the masks of scale 1.
        layout: Its `count` is that of the images to average over.

    Returns:
        A matplotlib `Figure`.
    """
    if len(models) != 1:
        raise ValueError(f"The entropy is of one model's classifier. Received: {len(models)}.")
    if truth is None:
        raise DataError("The masks are scaled true boxes, and this dataset has none.")
    (localizer,) = models.values()
    classifier = localizer.classifier
    single = np.flatnonzero(np.diff(truth.starts) == 1)
    chosen = scenes(split, truth, layout.count, layout.seed, single)
    images, boxes_rel_xyxy = _windows(squashed(localizer, chosen), chosen, classifier.image_size)
    examples = _examples(classifier, images[:1], boxes_rel_xyxy[:1], layout.cell)
    both = entropies(classifier, images, boxes_rel_xyxy)
    return _figure(examples, dict(zip(("object", "background"), both, strict=True)), classifier)


def _windows(images, chosen, image_size):
    """Return the central windows of squashed scenes, and the only box of each relative to that."""
    resize_size = images.shape[1]
    window = transforms.center_window(resize_size, image_size)
    boxes = np.stack([scene.truth_boxes_rel_xyxy[0] for scene in chosen])  # in images of side 1
    boxes = transforms.boxes_in_window(boxes, (1, 1), window, resize_size, image_size)
    return transforms.central(images, image_size), boxes


def _examples(classifier, image, box_rel_xyxy, cell):
    to_colors = denormalizer(classifier.normalize)
    rows = [], []
    for scale in _SHOWN:
        for row, picture in zip(rows, masked(classifier, image, box_rel_xyxy, scale), strict=True):
            row.append(resize(to_colors(picture)[0], cell))
    captions = [""] * len(_SHOWN) + [f"scale {scale:g}" for scale in _SHOWN]
    return grid([*rows[0], *rows[1]], len(_SHOWN), captions)


def _figure(examples, entropies_by_name, classifier):
    """Return a `Figure`: the examples, and beside them the mean entropy with its interval."""
    from gc_net.figures import plots

    height, width = examples.shape[:2]
    figure = plots.new_figure(width + 1.4 * height, height)
    axes = figure.add_axes([0, 0, width / (width + 1.4 * height), 1])
    axes.set_axis_off()
    axes.imshow(examples, interpolation="none", aspect="auto")
    axes = plots.add_axes(figure, width + 60, 48, 1.4 * height - 72, height - 84)
    plots.draw_curves(
        axes,
        SCALES,
        {name: values.mean(axis=0) for name, values in entropies_by_name.items()},
        intervals={
            name: metrics.bootstrap_interval(values) for name, values in entropies_by_name.items()
        },
        limit=(np.log(classifier.num_classes), f"ln {classifier.num_classes}"),
    )
    axes.set_xlabel("mask scale")
    axes.set_ylabel("entropy (nats)")
    return figure


def _entropy(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    total = np.exp(shifted).sum(axis=-1, keepdims=True)
    log_probabilities = shifted - np.log(total)
    return -(np.exp(log_probabilities) * log_probabilities).sum(axis=-1)
