"""Explains a detector's shapes: two checks of a run before its settings are changed.

*Agreement* needs no boxes, see `gc_net.evaluation.agreement`. So settings can be compared without a
single box. But larger shapes overlap more easily: compare shapes of about the same size.
docs/log/version_0.1.md has a case in which agreement did not find the best α.

*Landscape* needs a few boxes of any images. Use it to understand, not to choose. It shows the
losses at masks that are right, too small, too large, or the whole image. If the whole image has a
lower total than the exact boxes, training leads to shapes of the whole image. The table shows from
which α on the exact boxes win.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gc_net.classifier import Classifier
from gc_net.data.splits import Dataset, Split, Truth
from gc_net.evaluation.agreement import agreement
from gc_net.evaluation.batches import readable_batches
from gc_net.evaluation.checks import check_classes, check_truth, spread
from gc_net.generators.model import ModelGenerator
from gc_net.localizer import Localizer
from gc_net.losses.terms import BackgroundLoss, ObjectLoss
from gc_net.masking import inside_and_outside
from gc_net.tables import aligned
from gc_net.training_record import TrainingRecord

SCALES = (0.7, 0.85, 1.0, 1.2)
ALPHAS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0)
_WHOLE = "whole image"


def diagnose(
    model_dir: str | os.PathLike,
    dataset: Dataset | Callable[[TrainingRecord], Dataset],
    split: str = "train",
    with_landscape: bool = False,
    limit: int = 256,
) -> dict[str, Any]:
    """Print how far a saved model agrees with itself, and optionally the landscape.

    Args:
        model_dir: Folder of a model, see `gc_net.saving`.
        dataset: A `Dataset`, or a function of the model's `TrainingRecord` to one.
        split: `"train"` or `"test"`.
        with_landscape: Whether to show also the losses at masks of known boxes.
        limit: Most images to look at.

    Returns:
        Dict of what `agreement` and, under `landscape`, `landscape` return.
    """
    localizer = Localizer.load(model_dir)
    dataset = dataset(localizer.record) if callable(dataset) else dataset
    data, resize_size = dataset.split(split), localizer.resize_size
    check_classes(localizer.class_names, dataset, data)
    found = agreement(localizer.detector, data, resize_size, limit)
    print(
        f"Agreement between ten windows of {found['num_images']:,} {split} images: "
        f"{found['agreement']:.3f}. The mean box in every window, without a look at the image, "
        f"would have {found['constant']:.3f}; 1 is perfect. No box was read for this."
    )
    if with_landscape:
        truth = dataset.truth(split)
        check_truth(truth, dataset, data)
        found["landscape"] = landscape(localizer.classifier, data, truth, resize_size, limit)
        weights = localizer.record.loss_weights
        beta, gamma = (weights.get(term, 1.0) for term in ("object", "background"))
        print(
            "\nMean losses at masks of known boxes, upright rectangles with ε = 0.1, and the total "
            f"for several α with β = {beta:g}, γ = {gamma:g}; < marks each column's "
            "lowest. This has read boxes: it must not choose anything.\n"
        )
        print(landscape_table(found["landscape"], beta, gamma))
    return found


def landscape(
    classifier: Classifier,
    split: Split,
    truth: Truth,
    resize_size: int,
    limit: int = 256,
    epsilon: float = 0.1,
    batch_size: int = 32,
) -> dict[str, dict[str, float]]:
    """Return the losses at masks of known boxes.

    Args:
        classifier: The `Classifier` that judges.
        split, truth: Images and their boxes; only images with one box are used.
        resize_size: Side that images are squashed to before the central window is taken.
        limit: Most images to look at, spread evenly.
        epsilon: ε of the upright rectangle's masks.

    Returns:
        Dict of mask name to a dict of the mean `object`, `background` and `area` losses.
    """
    single = np.flatnonzero(np.diff(truth.starts) == 1)
    if not len(single):
        raise ValueError("No image has exactly one box, and the landscape needs some that do.")
    generator = ModelGenerator("rectangle", classifier.image_size, epsilon=epsilon)
    losses = {"object": ObjectLoss(reduction=None), "background": BackgroundLoss(reduction=None)}

    @tf.function(reduce_retracing=True)
    def judge(images, labels, coefficients):
        normalized = classifier.normalize(tf.cast(images, tf.float32))
        masks = generator(coefficients)
        inside, outside = inside_and_outside(normalized, masks)
        return (
            losses["object"](labels, {"object": classifier.from_normalized(inside)}),
            losses["background"](labels, {"background": classifier.from_normalized(outside)}),
        )

    collected = {}
    for batch in readable_batches(
        split,
        truth,
        image_size=classifier.image_size,
        resize_size=resize_size,
        batch_size=batch_size,
        indices=single[spread(len(single), limit)],
        label="Judging masks",
    ):
        for name, coefficients in _known_masks(batch["boxes_rel_xyxy"][:, 0].numpy()).items():
            inside, outside = judge(batch["image"], batch["label"], coefficients)
            area = coefficients[:, 2] * coefficients[:, 3]
            collected.setdefault(name, []).append(np.stack([inside, outside, area], axis=1))
    return {
        name: dict(
            zip(
                ("object", "background", "area"),
                np.concatenate(values).mean(axis=0).tolist(),
                strict=True,
            )
        )
        for name, values in collected.items()
    }


def landscape_table(
    losses: Mapping[str, Mapping[str, float]],
    beta: float = 1.0,
    gamma: float = 1.0,
    alphas: Sequence[float] = ALPHAS,
) -> str:
    """Return the landscape as text, with the total loss for each α; `<` marks a column's lowest."""
    totals = {
        name: [alpha * v["area"] + beta * v["object"] + gamma * v["background"] for alpha in alphas]
        for name, v in losses.items()
    }
    lowest = np.argmin(list(totals.values()), axis=0)  # [A]
    rows = [["masks", "object", "background", "area", *(f"α={alpha:g}" for alpha in alphas)]]
    for number, (name, terms) in enumerate(losses.items()):
        cells = [f"{value:.2f}" for value in terms.values()]
        cells += [
            f"{total:.2f}{'<' if lowest[column] == number else ' '}"
            for column, total in enumerate(totals[name])
        ]
        rows.append([name, *cells])
    return aligned(rows)


def _known_masks(boxes_rel_xyxy):
    """Return coefficients [B, 4] of upright rectangles by name."""
    centers = (boxes_rel_xyxy[:, :2] + boxes_rel_xyxy[:, 2:]) / 2
    extents = boxes_rel_xyxy[:, 2:] - boxes_rel_xyxy[:, :2]
    masks = {
        "exact boxes" if scale == 1 else f"boxes × {scale:g}": np.concatenate(
            [centers, extents * scale], axis=1
        )
        for scale in SCALES
    }
    middle = np.full_like(centers, 0.5)
    # As large as the boxes, but in the middle, like a detector that does not look.
    masks["boxes, centred"] = np.concatenate([middle, extents], axis=1)
    masks[_WHOLE] = np.concatenate([middle, np.ones_like(extents)], axis=1)
    return {name: values.astype(np.float32) for name, values in masks.items()}
