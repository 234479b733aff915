"""The third stage: the detector, trained by what a frozen classifier makes of masked images."""

import keras

from gc_net import parametrizations, presets
from gc_net.detector import Detector
from gc_net.model import GCNet
from gc_net.optimizers import Adam
from gc_net.training.folds import CrossFittedGCNet, FoldClassifiers

# The new layers of the heads, see gc_net.heads; the rest starts from trained weights.
HEAD_LAYERS = r"(^|/)(squeeze|squeeze_bn|outputs|edges_\w+)/"
SHARPNESS = r"(^|/)sharpness$"


def build_detector(config, classifier):
    """Return a new `Detector` with the weights that training starts from.

    Args:
        config: A `TrainConfig`.
        classifier: The trained `Classifier`, whose trunk may be taken over.
    """
    from_classifier = config.detector.initialize == "classifier"
    keep_initial = from_classifier or config.network.weights == "none"
    detector = Detector(
        config.network.backbone,
        config.detector.shape,
        image_size=config.data.image_size,
        head=config.detector.head,
        parametrization=parametrization(config.detector),
        weights=None if keep_initial else config.network.weights,
    )
    if from_classifier:
        for layer in detector.trunk.layers:  # all, or as far as the head looks at
            layer.set_weights(classifier.trunk.get_layer(layer.name).get_weights())
        _take_head(detector, classifier)
    return detector


def parametrization(settings):
    """Return the name of the parametrization that a `DetectorConfig` asks for."""
    own = parametrizations.of_head(settings.head)
    return settings.parametrization or own or presets.get(settings.preset).parametrization


def _take_head(detector, classifier):
    """Take over the hidden layers of the classifier's head, where the detector has the same."""
    if detector.head_name != classifier.head_name:
        return
    for layer in detector.head.layers:
        if layer.name != "outputs":
            layer.set_weights(classifier.head.get_layer(layer.name).get_weights())


def compose(config, detector, generator, classifiers):
    """Return the `GCNet` to train: with several classifiers, each judges the fold of its number.

    Args:
        config: A `TrainConfig`.
        classifiers: One trained `Classifier`, or one per fold.
    """
    settings = config.detector
    preset = presets.get(settings.preset)
    given = {"area": settings.alpha, "object": settings.beta, "background": settings.gamma}
    weights = {
        **preset.loss_weights(generator.kind, settings.shape, classifiers[0].num_classes),
        **{term: weight for term, weight in given.items() if weight is not None},
    }
    folded = len(classifiers) > 1
    return (CrossFittedGCNet if folded else GCNet)(
        detector,
        generator,
        FoldClassifiers(classifiers) if folded else classifiers[0],
        loss_weights=weights,
        frozen_mode=preset.frozen_mode,
    )


def compile_detector(model, config, steps_per_epoch):
    """Compile a `GCNet` with Adam and the rates of `config`, a `TrainConfig`."""
    settings = config.detector
    # The first pattern that is found counts.
    multipliers = [
        (pattern, factor)
        for pattern, factor in (
            (HEAD_LAYERS, settings.head_multiplier),
            (SHARPNESS, settings.epsilon_multiplier),
        )
        if factor is not None
    ]
    multipliers += presets.get(settings.preset).multipliers
    model.compile(optimizer=Adam(_schedule(settings, steps_per_epoch), multipliers=multipliers))


def blend(detector, weights, part):
    """Move a trained detector back towards the weights that its training started from.

    Weights on the way from a network to the one it was fine-tuned to give networks between the two,
    often better than either (Wortsman et al., 2022).

    Args:
        weights: What `get_weights` returned before the training.
        part: How much of them to keep, from 0 to 1.
    """
    detector.set_weights(
        [
            (1.0 - part) * trained + part * before
            for trained, before in zip(detector.get_weights(), weights, strict=True)
        ]
    )


def _schedule(settings, steps_per_epoch):
    if settings.schedule == "cosine":
        return keras.optimizers.schedules.CosineDecay(
            settings.learning_rate, settings.epochs * steps_per_epoch
        )
    preset = presets.get(settings.preset)
    rates = [
        settings.learning_rate * preset.rate_factor(epoch, settings.epochs)
        for epoch in range(settings.epochs)
    ]
    if len(set(rates)) == 1:
        return rates[0]
    # A boundary is the last step of the rate before it.
    boundaries = [epoch * steps_per_epoch - 1 for epoch in range(1, settings.epochs)]
    return keras.optimizers.schedules.PiecewiseConstantDecay(boundaries, rates)
