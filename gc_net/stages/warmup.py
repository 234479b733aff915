"""The stage before the third: the detector learns to place given shapes, see `targets`.

Left to the three losses alone, a detector starts with the same shape for every image and has to
find out by small steps where to look. So it is first shown roughly where, before the classifier's
word counts. No box is read.
"""

import keras
import tensorflow as tf

from gc_net.data import transforms
from gc_net.generators.model import ModelGenerator
from gc_net.losses.masks import OverlapLoss
from gc_net.optimizers import Adam, warm_cosine
from gc_net.stages.detector import HEAD_LAYERS
from gc_net.teachers.base import Targets
from gc_net.teachers.targets import in_windows

TARGETS_FILE = "targets.npz"


class Warmup(keras.Model):
    """A detector that is trained to place given shapes.

    Both shapes are drawn by the same generator and compared as masks, so it does not matter that
    one shape has several sets of coefficients, as a rotated one has.

    Args:
        detector: The `Detector` to train.
    """

    def __init__(self, detector, name="warmup", **kwargs):
        super().__init__(name=name, **kwargs)
        self.detector = detector
        self.generator = ModelGenerator(detector.shape, detector.image_size)
        self.generator.trainable = False
        self.built = True

    def call(self, images, training=False):
        return self.detector(images, training=training)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return self.loss(self.generator(y), self.generator(y_pred), sample_weight)


def compiled_warmup(detector, config, num_steps):
    """Return a compiled `Warmup` whose training trains `detector`.

    Args:
        config: A `TrainConfig`.
        num_steps: Steps of the whole training, which the schedule is stretched to.
    """
    settings = config.warmup
    schedule = warm_cosine(settings.learning_rate, num_steps)
    model = Warmup(detector)
    model.compile(
        optimizer=Adam(schedule, multipliers=[(HEAD_LAYERS, settings.head_multiplier)]),
        loss=OverlapLoss(),
        # XLA's convolutions are slower than oneDNN's on a CPU.
        jit_compile=False,
    )
    return model


def target_batches(data, targets: Targets, batch_size, *, epoch, **position):
    """Return one epoch of (images, coefficients [B, n] of the shapes in their windows, weights).

    Args:
        data: The `TrainingData`.
        targets: What the teacher has said.
        position: As `TrainingData.batches` takes it.
    """
    windows = transforms.random_windows(
        len(data.split), data.resize_size, data.image_size, seed=data.seed, epoch=epoch
    )
    placed = in_windows(targets.coefficients, windows, data.resize_size, data.image_size)
    placed = tf.constant(placed, tf.float32)
    weights = tf.constant(targets.weights, tf.float32)
    batches = data.batches(batch_size, targets.indices, epoch=epoch, with_index=True, **position)

    def with_targets(images, labels, index):
        return images, tf.gather(placed, index), tf.gather(weights, index)

    return batches.map(with_targets)
