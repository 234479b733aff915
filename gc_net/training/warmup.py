"""The stage before the third: the detector learns where descriptors say that objects are.

Left to the three losses alone, a detector starts with the same shape for every image and has to
find out by small steps where to look. Deep descriptor transforming (`gc_net.descriptors`) knows
roughly, from ImageNet weights alone: its maps become shapes, and the detector learns to place those
before the classifier's word counts. No box is read, and no label.
"""

import os

import keras
import numpy as np
import tensorflow as tf

from gc_net.atomic_files import replaced_file
from gc_net.datasets import transforms
from gc_net.datasets.base import DataError
from gc_net.datasets.pipeline import evaluation_batches
from gc_net.descriptors import Transform, describer, largest_parts
from gc_net.generators.model import ModelGenerator
from gc_net.losses import OverlapLoss
from gc_net.optimizers import Adam
from gc_net.progress import track
from gc_net.training.detector import HEAD_LAYERS
from gc_net.training.run import RunError

TARGETS_FILE = "targets.npz"
_BATCH_SIZE = 32


class Warmup(keras.Model):
    """A detector that is trained to place given shapes.

    Both shapes are drawn by the same generator and compared as masks, so it does not matter that
    one shape has several sets of coefficients, as a rotated one has.

    Args:
        detector: The `Detector` to train.
        shape: Name of the shape.
    """

    def __init__(self, detector, shape, name="warmup", **kwargs):
        super().__init__(name=name, **kwargs)
        self.detector = detector
        self.generator = ModelGenerator(shape, detector.image_size)
        self.generator.trainable = False
        self.shape = self.generator.shape
        self.built = True

    def call(self, images, training=False):
        return self.shape.decode(self.detector(images, training=training))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return self.loss(self.generator(y), self.generator(y_pred))


def compiled_warmup(detector, config, num_steps):
    """Return a compiled `Warmup` whose training trains `detector`.

    Args:
        config: A `TrainConfig`.
        num_steps: Steps of the whole training, which the schedule is stretched to.
    """
    settings = config.warmup
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0,
        num_steps - num_steps // 20,
        warmup_target=settings.learning_rate,
        warmup_steps=max(1, num_steps // 20),
    )
    model = Warmup(detector, config.detector.shape)
    model.compile(
        optimizer=Adam(schedule, multipliers=[(HEAD_LAYERS, settings.head_multiplier)]),
        loss=OverlapLoss(),
        # XLA's convolutions are slower than oneDNN's on a CPU.
        jit_compile=False,
    )
    return model


def find_targets(config, classifier, split, shape, path, write=True):
    """Return the shapes [N, n] that descriptors say, relative to the whole images.

    Rows of images in which nothing was found, or that cannot be read, are NaN.

    Args:
        config: A `TrainConfig`.
        classifier: The trained `Classifier`, which may describe the images.
        split: The training `Split`.
        shape: The `Shape` to fit.
        path: File to take the result from, where it exists, and else to write it to.
        write: Whether to write it.
    """
    if os.path.exists(path):
        with np.load(path, allow_pickle=False) as file:
            return file["coefficients"]
    settings = config.warmup
    size = settings.descriptor_size
    transform = Transform(_describer(config, classifier))

    def batches(indices=None):
        return evaluation_batches(
            split, image_size=size, batch_size=_BATCH_SIZE, frame="full", indices=indices
        )

    count = min(settings.descriptor_images, len(split))
    chosen = np.linspace(0, len(split) - 1, count).astype(int)
    steps = -(-count // _BATCH_SIZE)
    transform.fit(batch["image"] for batch in track(batches(chosen), steps, "Fitting descriptors"))
    coefficients = np.full((len(split), shape.num_coefficients), np.nan, np.float32)
    steps = -(-len(split) // _BATCH_SIZE)
    for batch in track(batches(), steps, "Describing images"):
        masks = largest_parts(transform(batch["image"]), size)
        for index, mask in zip(batch["index"].numpy(), masks, strict=True):
            if mask.any():
                coefficients[index] = shape.fit(mask)
    if np.isnan(coefficients).all():
        raise DataError(
            f"Descriptors find no object in any of the {len(split)} training images, so there is "
            "nothing to warm up with. Use --warmup_epochs=0."
        )
    if write:
        with replaced_file(path, "wb") as file:
            np.savez(file, coefficients=coefficients)
    return coefficients


def target_batches(data, coefficients, batch_size, *, epoch, **position):
    """Return one epoch of (images, coefficients [B, n] of the shape in each image's window).

    Args:
        data: The `TrainingData`.
        coefficients: [N, n] of `find_targets`.
        position: As `TrainingData.batches` takes it.
    """
    indices = np.flatnonzero(~np.isnan(coefficients[:, 0]))
    windows = transforms.random_windows(
        len(data.split), data.resize_size, data.image_size, seed=data.seed, epoch=epoch
    )
    placed = in_windows(coefficients, windows, data.resize_size, data.image_size)
    placed = tf.constant(placed, tf.float32)
    batches = data.batches(batch_size, indices, epoch=epoch, with_index=True, **position)
    return batches.map(lambda images, labels, index: (images, tf.gather(placed, index)))


def in_windows(coefficients, windows, resize_size, image_size):
    """Map shapes from the whole squashed image to windows of it.

    Args:
        coefficients: [N, n] relative to the whole image.
        windows: [N, 3] rows of (top, left, flip), see `transforms.random_windows`.

    Returns:
        [N, n] relative to the windows; a shape may reach beyond its own.
    """
    placed = np.array(coefficients, np.float32)
    top, left, flip = np.asarray(windows, np.float32).T
    placed[:, 0] = (placed[:, 0] * resize_size - left) / image_size
    placed[:, 1] = (placed[:, 1] * resize_size - top) / image_size
    placed[:, 2:4] *= resize_size / image_size
    flipped = flip > 0
    placed[flipped, 0] = 1 - placed[flipped, 0]
    placed[flipped, 4:] *= -1
    return placed


def _describer(config, classifier):
    """Return the function of images to descriptors that the settings ask for."""
    trunk = classifier.backbone.trunk(config.warmup.descriptor_size)
    if config.warmup.descriptors == "classifier":
        # The same weights at another image size.
        trunk.set_weights(classifier.trunk.get_weights())
    elif config.network.weights == "none":
        raise RunError(
            "A backbone without weights describes nothing, and the warm-up needs descriptors. Use "
            "--warmup_descriptors=classifier, or --warmup_epochs=0."
        )
    else:
        classifier.backbone.load_weights(trunk, weights=config.network.weights)
    return describer(classifier, trunk)
