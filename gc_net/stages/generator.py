"""The second stage: a learned generator, trained and measured on rendered shapes."""

import math
import os

import keras
import numpy as np
import tensorflow as tf

from gc_net import shapes
from gc_net.generators.learned import LearnedGenerator
from gc_net.losses.masks import DiceLoss, MaskLoss
from gc_net.optimizers import SGD
from gc_net.stages import run_folder
from gc_net.training import devices, loop, monitoring
from gc_net.weights import save_weights_npz

# The authors cut the rate to a tenth at these of 120,000 steps.
PAPER_STEPS = 120_000
PAPER_BOUNDARIES = (20_000, 40_000, 80_000, 100_000)


STEPS_PER_EPOCH = 500


def rendered_batches(
    shape, sampler, image_size, batch_size, steps, seed, start=0, num_shards=1, shard_index=0
):
    """Return a tf.data.Dataset of (coefficients, exact masks), drawn inside its graph.

    The batch of a step depends on the seed and the step alone. Of several shards, each gets its
    own rows of it.
    """
    shape = shapes.get(shape)

    # Compiled to one loop over the pixels: as single operations they would write a map of all
    # pixels to memory after each. The sampling is not compiled, as XLA may draw other numbers.
    @tf.function(jit_compile=True)
    def masks(coefficients):
        return shape.masks(coefficients, image_size, image_size)

    def render(step):
        coefficients = shape.sample(batch_size, tf.stack([tf.cast(seed, tf.int64), step]), sampler)
        coefficients = tf.split(coefficients, num_shards)[shard_index]
        return coefficients, masks(coefficients)

    batches = tf.data.Dataset.range(start, steps).map(render, num_parallel_calls=2)
    return batches.prefetch(tf.data.AUTOTUNE)


def compile_generator(generator, config):
    """Compile `generator` with the optimizer and loss of `config.recipe`."""
    if config.recipe == "paper":
        rate = 0.1 if config.learning_rate is None else config.learning_rate
        scale = config.steps / PAPER_STEPS
        schedule = keras.optimizers.schedules.PiecewiseConstantDecay(
            [round(boundary * scale) for boundary in PAPER_BOUNDARIES],
            [rate * 0.1**index for index in range(len(PAPER_BOUNDARIES) + 1)],
        )
        optimizer = SGD(schedule, momentum=0.9, l2=5e-4)
        loss = DiceLoss()
    elif config.recipe == "fast":
        rate = 2e-3 if config.learning_rate is None else config.learning_rate
        schedule = keras.optimizers.schedules.CosineDecay(rate, config.steps)
        optimizer, loss = keras.optimizers.Adam(schedule), MaskLoss()
    else:
        raise ValueError(f'`recipe` must be "paper" or "fast". Received: recipe={config.recipe!r}')
    generator.compile(optimizer=optimizer, loss=loss, jit_compile=False)


def train_generator(config, folder, callbacks=(), checkpoint_steps=STEPS_PER_EPOCH, verbose=1):
    """Train a learned generator, from where an earlier call with the same folder was stopped.

    Args:
        config: A `GeneratorConfig`. Its steps are rounded up to whole epochs of equal length.
        folder: Where checkpoints are kept.
        callbacks, checkpoint_steps, verbose: See `gc_net.training.loop.train`.

    Returns:
        The trained `LearnedGenerator`, frozen.
    """
    devices.check_batch_size("generator", config.batch_size)
    keras.utils.set_random_seed(config.seed)
    generator = LearnedGenerator(config.shape, network=config.network, weights=None)
    size = generator.network.train_size
    generator.image_size = (size, size)
    compile_generator(generator, config)
    epochs = math.ceil(config.steps / STEPS_PER_EPOCH)
    steps_per_epoch = math.ceil(config.steps / epochs)

    def batches(epoch, start_step, **shard):
        first = epoch * steps_per_epoch
        return rendered_batches(
            config.shape,
            config.sampler,
            size,
            config.batch_size,
            first + steps_per_epoch,
            config.seed,
            start=first + start_step,
            **shard,
        )

    loop.train(
        generator,
        batches,
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        folder=folder,
        checkpoint_steps=checkpoint_steps,
        callbacks=callbacks,
        verbose=verbose,
    )
    generator.trainable = False
    return generator


def make_generator(config, output_dir, verbose=1):
    """Train a generator, measure it, and write `<shape>_<network>.npz` and `.json`.

    Args:
        config: A `GeneratorConfig`.
        output_dir: Folder to write to; checkpoints are kept in a folder of their own in it.

    Returns:
        What `measure_generator` found.
    """
    name = os.path.join(output_dir, f"{config.shape}_{config.network}")
    folder = f"{name}_training"
    with run_folder.locked(folder):
        run_folder.check_config(folder, {"generator": config.to_dict()})
        callbacks = monitoring.stage_callbacks(folder, tensorboard=False)
        generator = train_generator(config, folder, callbacks, verbose=verbose)
        measured = measure_generator(generator)
        with run_folder.writing(output_dir):
            save_weights_npz(f"{name}.npz", generator.network)
        run_folder.write_json(f"{name}.json", {"config": config.to_dict(), "iou": measured})
    return measured


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
