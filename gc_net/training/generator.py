"""Training and measuring a learned generator on rendered shapes."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

from gc_net import shapes
from gc_net.generators.learned import LearnedGenerator
from gc_net.losses import DiceLoss, MaskLoss


@dataclasses.dataclass(frozen=True)
class GeneratorConfig:
    """How a learned generator is trained.

    Attributes:
        shape: Name of the shape.
        network: Name of the network, see `gc_net.generators.networks`.
        sampler: Where coefficients come from, see `gc_net.shapes.samplers`.
        steps: Number of batches.
        batch_size: Shapes a batch.
        learning_rate: Initial rate; it falls to zero along a cosine, or in the authors' steps.
        recipe: `"fast"` for Adam and `MaskLoss`, which is what two CPU cores can afford, or
            `"paper"` for SGD and Dice with the authors' schedule.
        seed: Seed of initial weights and samples.
    """

    shape: str = "rotated_ellipse"
    network: str = "implicit"
    sampler: str = "full"
    steps: int = 10_000
    batch_size: int = 128
    learning_rate: float = 2e-3
    recipe: str = "fast"
    seed: int = 0


# The authors cut the rate to a tenth at these of 120,000 steps.
PAPER_STEPS = 120_000
PAPER_BOUNDARIES = (20_000, 40_000, 80_000, 100_000)


def rendered_batches(shape, sampler, image_size, batch_size, steps, seed, start=0):
    """Return a tf.data.Dataset of (coefficients, exact masks), drawn inside its graph.

    The batch of a step depends on the seed and the step alone.
    """
    shape = shapes.get(shape)

    def render(step):
        coefficients = shape.sample(batch_size, tf.stack([tf.cast(seed, tf.int64), step]), sampler)
        return coefficients, shape.masks(coefficients, image_size, image_size)

    batches = tf.data.Dataset.range(start, steps).map(render, num_parallel_calls=2)
    return batches.prefetch(tf.data.AUTOTUNE)


def compile_generator(generator, config):
    """Compile `generator` with the optimizer and loss of `config.recipe`."""
    if config.recipe == "paper":
        scale = config.steps / PAPER_STEPS
        schedule = keras.optimizers.schedules.PiecewiseConstantDecay(
            [round(boundary * scale) for boundary in PAPER_BOUNDARIES],
            [config.learning_rate * 0.1**index for index in range(len(PAPER_BOUNDARIES) + 1)],
        )
        optimizer = keras.optimizers.SGD(schedule, momentum=0.9, weight_decay=5e-4)
        loss = DiceLoss()
    elif config.recipe == "fast":
        schedule = keras.optimizers.schedules.CosineDecay(config.learning_rate, config.steps)
        optimizer, loss = keras.optimizers.Adam(schedule), MaskLoss()
    else:
        raise ValueError(f'`recipe` must be "paper" or "fast". Received: recipe={config.recipe!r}')
    generator.compile(optimizer=optimizer, loss=loss, jit_compile=False)


def train_generator(config, backup_dir=None, steps_per_epoch=500, verbose=1):
    """Train a learned generator.

    Args:
        config: A `GeneratorConfig`.
        backup_dir: Folder to keep the state in after every `steps_per_epoch` steps; the same
            call goes on from there.

    Returns:
        The trained `LearnedGenerator`, frozen.
    """
    keras.utils.set_random_seed(config.seed)
    generator = LearnedGenerator(config.shape, network=config.network, weights=None)
    size = generator.network.train_size
    generator.image_size = (size, size)
    compile_generator(generator, config)
    batches = rendered_batches(
        config.shape, config.sampler, size, config.batch_size, config.steps, config.seed
    )
    steps_per_epoch = min(steps_per_epoch, config.steps)
    callbacks = [keras.callbacks.BackupAndRestore(backup_dir)] if backup_dir else []
    generator.fit(
        batches.repeat(),
        epochs=-(-config.steps // steps_per_epoch),
        steps_per_epoch=steps_per_epoch,
        callbacks=callbacks,
        verbose=verbose,
    )
    generator.trainable = False
    return generator


def mask_iou(generator, coefficients, image_size=224, batch_size=32):
    """Return the IoU [N] of a generator's masks, cut at ½, with the exact ones."""
    shape = generator.shape

    @tf.function
    def batch_iou(coefficients):
        exact = shape.masks(coefficients, image_size, image_size) > 0.5
        drawn = generator(coefficients, image_size=(image_size, image_size)) > 0.5
        overlap = tf.math.count_nonzero(exact & drawn, axis=(1, 2, 3))
        union = tf.math.count_nonzero(exact | drawn, axis=(1, 2, 3))
        # A shape that covers no pixel centre is drawn right when nothing is drawn.
        return tf.where(union > 0, overlap / tf.maximum(union, 1), 1.0)

    batches = tf.data.Dataset.from_tensor_slices(coefficients).batch(batch_size)
    return np.concatenate([batch_iou(batch).numpy() for batch in batches])


def measure_generator(generator, num_samples=2000, seed=1_000_003, image_size=224):
    """Measure a generator's mean IoU on unseen coefficients, by range, crossing and size.

    Returns:
        Dict of name to `{"mean_iou", "num_samples"}`: the authors' range; all of the full range,
        and of it the shapes that cross the border or do not, and by the longer side.
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
