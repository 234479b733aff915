"""The stage before the third: the detector learns to place given shapes, see `targets`.

Left to the three losses alone, a detector starts with the same shape for every image and has to
find out by small steps where to look. So it is first shown roughly where, before the classifier's
word counts. No box is read.
"""

import keras
import numpy as np
import tensorflow as tf

from gc_net.data import transforms
from gc_net.generators.model import ModelGenerator
from gc_net.losses import OverlapLoss
from gc_net.optimizers import Adam, warm_cosine
from gc_net.stages.detector import HEAD_LAYERS
from gc_net.teachers import targets

TARGETS_FILE = "targets.npz"


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
    schedule = warm_cosine(settings.learning_rate, num_steps)
    model = Warmup(detector, config.detector.shape)
    model.compile(
        optimizer=Adam(schedule, multipliers=[(HEAD_LAYERS, settings.head_multiplier)]),
        loss=OverlapLoss(),
        # XLA's convolutions are slower than oneDNN's on a CPU.
        jit_compile=False,
    )
    return model


def target_batches(data, coefficients, batch_size, *, epoch, **position):
    """Return one epoch of (images, coefficients [B, n] of the shape in each image's window).

    Args:
        data: The `TrainingData`.
        coefficients: [N, n] of `targets.find_targets`.
        position: As `TrainingData.batches` takes it.
    """
    indices = np.flatnonzero(~np.isnan(coefficients[:, 0]))
    windows = transforms.random_windows(
        len(data.split), data.resize_size, data.image_size, seed=data.seed, epoch=epoch
    )
    placed = targets.in_windows(coefficients, windows, data.resize_size, data.image_size)
    placed = tf.constant(placed, tf.float32)
    batches = data.batches(batch_size, indices, epoch=epoch, with_index=True, **position)
    return batches.map(lambda images, labels, index: (images, tf.gather(placed, index)))
