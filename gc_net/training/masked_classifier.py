"""The training of a classifier: with random masks or augmentation; and its optimizers."""

from typing import TYPE_CHECKING, Any

import keras

from gc_net.losses.classes import ClassLoss
from gc_net.optimizers import REFERENCE_MULTIPLIERS, SGD, AdamW, BuiltOptimizer, warm_cosine
from gc_net.registry import Registry
from gc_net.settings import Settings

if TYPE_CHECKING:
    from gc_net.classifier import Classifier
    from gc_net.training.masks import RandomMasks

# The authors cut the rate to a tenth after these of 200 epochs.
PAPER_BOUNDARIES = (80 / 200, 150 / 200)


class MaskedClassifier(BuiltOptimizer, keras.Model):
    """A classifier in training, which sees some of the images through masks.

    Args:
        classifier: The `Classifier` to train.
        masks: A `RandomMasks` layer, or None for no masks.
        augmentation: A layer that changes images [B, H, W, 3] in 0–255 at random, or None.
    """

    def __init__(
        self,
        classifier: "Classifier",
        masks: "RandomMasks | None" = None,
        augmentation: keras.layers.Layer | None = None,
        name: str = "masked_classifier",
        **kwargs: Any,
    ):
        super().__init__(name=name, **kwargs)
        self.classifier = classifier
        self.masks = masks
        self.augmentation = augmentation
        # Made here, because Keras would make the variables of compiled metrics within the first
        # step, which fails if a step runs on several devices.
        self.accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        self.built = True

    def compile(self, optimizer, loss=None, jit_compile: bool = False, **kwargs) -> None:
        """Configure training as Keras does; the loss is a `ClassLoss` if it is None."""
        # XLA's convolutions are slower than oneDNN's on a CPU.
        loss = ClassLoss() if loss is None else loss
        super().compile(optimizer=optimizer, loss=loss, jit_compile=jit_compile, **kwargs)

    def normalized(self, images: Any, training: bool = False) -> Any:
        """Return the images as the trunk sees them."""
        if self.augmentation is not None:
            images = self.augmentation(images, training=training)
        normalized = self.classifier.normalize(images)
        if self.masks is not None:
            normalized = self.masks(normalized, training=training)
        return normalized

    def call(self, images, training=False):
        normalized = self.normalized(images, training=training)
        return self.classifier.from_normalized(normalized, training=training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        self.accuracy.update_state(y, y_pred, sample_weight)
        return self.get_metrics_result()


def optimizer(settings: Settings, num_steps: int) -> keras.optimizers.Optimizer:
    """Return the optimizer of a classifier's recipe, see `ClassifierConfig`."""
    return OPTIMIZERS.get(settings.recipe)(settings, num_steps)


def fast_optimizer(settings: Settings, num_steps: int) -> keras.optimizers.Optimizer:
    """Return AdamW on a `warm_cosine`, without decay for biases and normalizations."""
    rate = 6e-4 if settings.learning_rate is None else settings.learning_rate
    decay = 0.01 if settings.weight_decay is None else settings.weight_decay
    optimizer = AdamW(warm_cosine(rate, num_steps), weight_decay=decay)
    optimizer.exclude_from_weight_decay(var_names=["bias", "beta", "gamma"])
    return optimizer


def paper_optimizer(settings: Settings, num_steps: int) -> keras.optimizers.Optimizer:
    """Return the authors' SGD with their rates and schedule."""
    rate = 1e-3 if settings.learning_rate is None else settings.learning_rate
    # A boundary is the last step with the rate before it.
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay(
        [round(boundary * num_steps) - 1 for boundary in PAPER_BOUNDARIES],
        [rate, rate * 0.1, rate * 0.01],
    )
    decay = 5e-4 if settings.weight_decay is None else settings.weight_decay
    return SGD(schedule, momentum=0.9, l2=decay, multipliers=REFERENCE_MULTIPLIERS)


OPTIMIZERS = Registry("classifier recipe", {"fast": fast_optimizer, "paper": paper_optimizer})


def augmentation(strength: float, seed: int) -> keras.Layer | None:
    """Return a layer that zooms and lights images in 0–255 at random.

    Random windows have shifted them already.

    Args:
        strength: 1 for zooms to a window of 0.7 to 1.1 of each side, a tenth more or less of
            brightness and a fifth more or less of contrast; other values in proportion.
        seed: Seed; the states of the generators are variables of the layer.
    """
    if not strength:
        return None
    layers = keras.layers
    # Each side has its own zoom, so that proportions change as well.
    zoom = (-0.3 * strength, 0.1 * strength)
    contrast = min(0.2 * strength, 0.99)  # both ways; a single number would only raise it
    # Always in float32: half precision has too few grey levels.
    return keras.Sequential(
        [
            layers.RandomZoom(zoom, zoom, seed=seed, dtype="float32"),
            # Different seeds, or a brighter image would always have more contrast.
            layers.RandomBrightness(0.1 * strength, seed=seed + 1, dtype="float32"),
            layers.RandomContrast((contrast, contrast), seed=seed + 2, dtype="float32"),
        ],
        name="augmentation",
    )
