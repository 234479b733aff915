"""The first stage: a classifier fine-tuned on the training images."""

import keras

from gc_net.classifier import Classifier
from gc_net.losses.classes import ClassLoss
from gc_net.optimizers import REFERENCE_MULTIPLIERS, SGD, warm_cosine
from gc_net.registry import Registry
from gc_net.stages.run_folder import RunError
from gc_net.training.masks import RandomMasks

# The authors cut the rate to a tenth after these of 200 epochs.
PAPER_BOUNDARIES = (80 / 200, 150 / 200)


class MaskedClassifier(keras.Model):
    """A classifier as it is trained: some of the images are seen through masks.

    Args:
        classifier: The `Classifier` to train.
        masks: A `RandomMasks` layer, or None for no masks.
        augmentation: A layer that changes images [B, H, W, 3] in 0–255 at random, or None.
    """

    def __init__(
        self, classifier, masks=None, augmentation=None, name="masked_classifier", **kwargs
    ):
        super().__init__(name=name, **kwargs)
        self.classifier = classifier
        self.masks = masks
        self.augmentation = augmentation
        # Made here, since Keras would make the variables of compiled metrics within the first
        # step, which fails where a step runs on several devices.
        self.accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        self.built = True

    def normalized(self, images, training=False):
        """Return the images as the trunk is to see them."""
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


def build_classifier(config, num_classes):
    """Return a new `Classifier` with the weights that training starts from.

    Args:
        config: A `TrainConfig`.
    """
    classifier = untrained(config, num_classes, config.data.image_size)
    if config.classifier.recipe == "none" and num_classes != 1000:
        raise RunError(
            "The classifier's recipe `none` takes the 1000-class ImageNet weights as they are, but "
            f"the dataset has {num_classes} classes. Use the recipe `fast` or `paper`."
        )
    if config.classifier.recipe == "none" and classifier.initial_variables:
        raise RunError(
            "The classifier's recipe `none` trains nothing, but the weights "
            f"{config.network.weights!r} have nothing for these of its head: "
            f"{', '.join(classifier.initial_variables)}. Give --weights with a head of 1000 "
            "classes, e.g. imagenet, or use the recipe `fast` or `paper`."
        )
    return classifier


def untrained(config, num_classes, image_size, name="classifier"):
    """Return a `Classifier` of the network and the weights that a `TrainConfig` names."""
    return Classifier(
        config.network.backbone,
        num_classes=num_classes,
        image_size=image_size,
        weights=None if config.network.weights == "none" else config.network.weights,
        name=name,
    )


def trained_classifier(classifier, config, num_steps):
    """Return a compiled model whose training trains `classifier`.

    Args:
        config: A `TrainConfig`.
        num_steps: Steps of the whole training, which schedules are stretched to.
    """
    settings = config.classifier
    masks = RandomMasks(
        settings.mask_shape,
        settings.mask_fraction,
        settings.mask_min_extent,
        settings.mask_max_extent,
        settings.mask_inverted,
        seed=config.seed,
    )
    return compiled(classifier, OPTIMIZERS.get(settings.recipe)(settings, num_steps), masks)


def compiled(classifier, optimizer, masks=None, augmentation=None, smoothing=0.0):
    """Return a compiled `MaskedClassifier`.

    Args:
        smoothing: Part of each label that is spread evenly over all classes.
    """
    model = MaskedClassifier(classifier, masks, augmentation)
    model.compile(
        optimizer=optimizer,
        loss=ClassLoss(smoothing),
        # XLA's convolutions are slower than oneDNN's on a CPU.
        jit_compile=False,
    )
    return model


def fast_optimizer(settings, num_steps):
    """Return AdamW on a `warm_cosine`, without decay for biases and normalizations."""
    rate = 6e-4 if settings.learning_rate is None else settings.learning_rate
    decay = 0.01 if settings.weight_decay is None else settings.weight_decay
    optimizer = keras.optimizers.AdamW(warm_cosine(rate, num_steps), weight_decay=decay)
    optimizer.exclude_from_weight_decay(var_names=["bias", "beta", "gamma"])
    return optimizer


def paper_optimizer(settings, num_steps):
    """Return the authors' SGD with their rates and schedule."""
    rate = 1e-3 if settings.learning_rate is None else settings.learning_rate
    # A boundary is the last step of the rate before it.
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay(
        [round(boundary * num_steps) - 1 for boundary in PAPER_BOUNDARIES],
        [rate, rate * 0.1, rate * 0.01],
    )
    decay = 5e-4 if settings.weight_decay is None else settings.weight_decay
    return SGD(schedule, momentum=0.9, l2=decay, multipliers=REFERENCE_MULTIPLIERS)


OPTIMIZERS = Registry(
    "classifier recipe",
    {"fast": fast_optimizer, "paper": paper_optimizer},
)
