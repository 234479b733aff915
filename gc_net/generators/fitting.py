"""Fits a learned generator to rendered shapes, and measures it on them."""

import keras
import numpy as np
import tensorflow as tf

from gc_net import shapes
from gc_net.generators.crop_fitting import compile_crops, rendered
from gc_net.generators.crops import CropModel
from gc_net.generators.learned import LearnedGenerator
from gc_net.losses.masks import DiceLoss, MaskLoss
from gc_net.optimizers import SGD
from gc_net.settings import Settings

# The authors cut the rate to a tenth at these of 120,000 steps.
PAPER_STEPS = 120_000
PAPER_BOUNDARIES = (20_000, 40_000, 80_000, 100_000)


def rendered_batches(
    shape: str,
    sampler: str,
    image_size: int,
    batch_size: int,
    steps: int,
    seed: int,
    start: int = 0,
    num_shards: int = 1,
    shard_index: int = 0,
) -> tf.data.Dataset:
    """Return a tf.data.Dataset of (coefficients, exact masks), drawn inside its graph.

    The batch of a step depends only on the seed and the step. With several shards, each gets its
    own rows.
    """
    shape = shapes.get(shape)

    # Compiled to one loop over the pixels, because each single operation would write a map of all
    # pixels to memory. The sampling is not compiled, because XLA may draw other numbers.
    @tf.function(jit_compile=True)
    def masks(coefficients):
        return shape.masks(coefficients, image_size, image_size)

    def render(step_seed):
        coefficients = shape.sample(batch_size, step_seed, sampler)
        coefficients = tf.split(coefficients, num_shards)[shard_index]
        return coefficients, masks(coefficients)

    return rendered(render, seed, start, steps)


def compile_generator(generator: LearnedGenerator | CropModel, settings: Settings) -> None:
    """Compile `generator` with the optimizer and loss of a `GeneratorConfig`."""
    if settings.recipe == "paper":
        rate = 0.1 if settings.learning_rate is None else settings.learning_rate
        scale = settings.steps / PAPER_STEPS
        schedule = keras.optimizers.schedules.PiecewiseConstantDecay(
            [round(boundary * scale) for boundary in PAPER_BOUNDARIES],
            [rate * 0.1**index for index in range(len(PAPER_BOUNDARIES) + 1)],
        )
        optimizer = SGD(schedule, momentum=0.9, l2=5e-4)
        loss = DiceLoss()
    else:
        rate = 2e-3 if settings.learning_rate is None else settings.learning_rate
        if isinstance(generator, CropModel):
            compile_crops(generator, rate, settings.steps)
            return
        schedule = keras.optimizers.schedules.CosineDecay(rate, settings.steps)
        optimizer, loss = keras.optimizers.Adam(schedule), MaskLoss()
    generator.compile(optimizer=optimizer, loss=loss, jit_compile=False)


def mask_iou(
    generator: LearnedGenerator,
    coefficients: np.ndarray,
    image_size: int = 224,
    batch_size: int = 32,
) -> np.ndarray:
    """Return the IoU [N] of a generator's masks, cut at ½, with the exact ones."""
    shape = generator.shape

    @tf.function
    def batch_iou(coefficients):
        exact = shape.masks(coefficients, image_size, image_size) > 0.5
        drawn = generator(coefficients, image_size=(image_size, image_size)) > 0.5
        overlap = tf.math.count_nonzero(exact & drawn, axis=(1, 2, 3))
        union = tf.math.count_nonzero(exact | drawn, axis=(1, 2, 3))
        # If a shape covers no pixel centre, an empty mask is right.
        return tf.where(union > 0, overlap / tf.maximum(union, 1), 1.0)

    batches = tf.data.Dataset.from_tensor_slices(coefficients).batch(batch_size)
    return np.concatenate([batch_iou(batch).numpy() for batch in batches])


def measure_generator(
    generator: LearnedGenerator,
    num_samples: int = 2000,
    seed: int = 1_000_003,
    image_size: int = 224,
) -> dict[str, dict[str, float]]:
    """Measure a generator's mean IoU on unseen coefficients, by range, crossing and size.

    Returns:
        Dict of name to `{"mean_iou", "num_samples"}`: the authors' range; the full range; and in
        the full range shapes that cross the border, shapes that do not, and shapes by longer side.
    """
    shape = generator.shape
    reference = shape.sample(num_samples, (seed, 0), "reference")
    full = shape.sample(num_samples, (seed, 1), "full")
    iou = mask_iou(generator, full, image_size)
    boxes_rel_xyxy = np.asarray(shape.boxes(full))
    crossing = (boxes_rel_xyxy[:, :2] < 0).any(-1) | (boxes_rel_xyxy[:, 2:] > 1).any(-1)
    longer = np.asarray(full)[:, 2:4].max(-1)
    groups = {
        "reference": mask_iou(generator, reference, image_size),
        "full": iou,
        "inside": iou[~crossing],
        "crossing": iou[crossing],
    }
    for low, high in [(0.0, 0.1), (0.1, 0.25), (0.25, 0.5), (0.5, 1.0)]:
        groups[f"size {low:g}–{high:g}"] = iou[(longer > low) & (longer <= high)]
    return {
        name: {"mean_iou": float(values.mean()), "num_samples": len(values)}
        for name, values in groups.items()
    }
