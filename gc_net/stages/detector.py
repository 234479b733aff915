"""The detector, trained by what frozen classifiers say about the images it masks."""

import dataclasses
import functools

from gc_net import generators
from gc_net.generators import GENERATORS
from gc_net.heads import DETECTOR_HEADS
from gc_net.losses import LOSS_TERMS
from gc_net.parametrizations import PARAMETRIZATIONS
from gc_net.settings import Settings, read_pairs, setting
from gc_net.shapes import SHAPES
from gc_net.stages.base import Batches, DetectorStageConfig, Stage, is_trained, num_steps
from gc_net.stages.fold_classifiers import fold_name

# The new layers of the heads, see gc_net.heads; the rest starts from trained weights.
HEAD_LAYERS = r"(^|/)(squeeze|squeeze_bn|outputs|edges_\w+)/"
SHARPNESS = r"(^|/)sharpness$"
GENERATOR_FILE = "generator.npz"


@dataclasses.dataclass(frozen=True)
class DetectorConfig(DetectorStageConfig):
    """How the detector is trained.

    Attributes:
        shape: Shape that the detector places.
        generator: model for masks from the level set, learned for masks from a network.
        generator_network: Network of a learned generator.
        generator_weights: Weights of a learned generator. shipped takes those of the package, or
            trains them in a stage of its own if there are none; own always trains them; or a file.
        epsilon: Initial ε of the model generator, the width of a mask's edge.
        head: native for the backbone's own as in the paper; position, which keeps the feature
            map's positions; or edges, which finds an object's edges in finer maps.
        parametrization: How the detector's outputs become coefficients: seamless for size and
            elongation, or sigmoid as in the paper, whose angle jumps at the vertical. None for the
            head's own if it has one, as edges has, or else the preset's, which is sigmoid with
            paper and reference. See gc_net/parametrizations.
        initialize: Weights that the trunk starts from: backbone for those that the classifier
            started from, or classifier for those it ended with.
        preset: Settings in which paper and authors' code differ; scaled fits the weight of the area
            loss to the number of classes. See gc_net/presets.py.
        loss_weights: Weights of the loss terms as name=value, separated by commas, e.g.
            area=2.5,object=1,background=1. Terms that are not named take the preset's weight.
        epochs: Passes over the training images; 0 to keep the detector of the warm-up.
        learning_rate: Base rate of Adam.
        schedule: preset for the preset's schedule, cosine for a fall to zero, or warm_cosine for
            the same after a rise over the first twentieth of the steps, which high rates need.
        head_multiplier: Factor on the rate of the head's layers; None for the preset's.
        epsilon_multiplier: Factor on the rate of the model generator's ε; None for the preset's.
        blend: Share of the warmed-up detector in the trained one: 0.5 takes the mean of both
            networks' weights, 0 only the trained one. With a blend, both count: what the losses say
            about an object's size, and what the teacher says about its outline.
    """

    epochs: int = setting(10, low=0)
    shape: str = setting("rotated_rectangle", SHAPES.names)
    generator: str = setting("model", GENERATORS.names)
    generator_network: str = setting("implicit", ("implicit", "paper"))
    generator_weights: str = "shipped"
    epsilon: float = setting(0.1, low=1e-6)
    head: str = setting("position", DETECTOR_HEADS)
    parametrization: str | None = setting(None, PARAMETRIZATIONS.names)
    initialize: str = setting("classifier", ("backbone", "classifier"))
    preset: str = setting("paper", ("paper", "reference", "scaled"))
    loss_weights: str = setting("", flag="loss_weights")
    learning_rate: float = setting(1e-4, low=0.0)
    schedule: str = setting("preset", ("preset", "cosine", "warm_cosine"))
    head_multiplier: float | None = setting(None, low=0.0)
    epsilon_multiplier: float | None = setting(None, low=0.0)
    blend: float = setting(0.0, low=0.0, high=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in self.weights().items():
            if name not in LOSS_TERMS:
                raise ValueError(
                    f"`loss_weights` has an unknown term {name!r}. Known ones: "
                    f"{', '.join(LOSS_TERMS)}."
                )
            if isinstance(value, str):
                raise ValueError(
                    "`loss_weights` must give each term a number, e.g. area=2.5,object=1. "
                    f"Received: {name}={value}"
                )

    def weights(self) -> dict[str, float]:
        """Return `loss_weights` as a dict."""
        return read_pairs(self.loss_weights, "loss_weights")

    def term_weights(self, generator: str, num_classes: int) -> dict[str, float]:
        """Return the weights of all loss terms: the given ones, or else the preset's.

        Args:
            generator: Kind of the generator.
        """
        from gc_net import presets

        preset = presets.get(self.preset)
        return {**preset.loss_weights(generator, self.shape, num_classes), **self.weights()}


class DetectorStage(Stage):
    """Trains the detector."""

    name = "detector"
    title = "Detector"
    settings = DetectorConfig
    needs = ("classifier", "fold_classifiers", "generator", "warmup")
    provides = ("detector", "generator")
    # Health rules compare a line with the one before, and suit lines of this length.
    least_logged_steps = 250

    @classmethod
    def units(cls, config):
        # Without epochs of its own it keeps the detector of the warm-up.
        return [cls()]

    @classmethod
    def resolve(cls, config):
        from gc_net import parametrizations, presets, shapes

        if config.detector.parametrization is not None:
            return config
        # Without an angle there is no difference, and runs of earlier versions had the paper's.
        rotates = shapes.get(config.detector.shape).rotates
        preset = presets.get(config.detector.preset).parametrization if rotates else "sigmoid"
        chosen = parametrizations.of_head(config.detector.head) or preset
        return _with_parametrization(config, chosen)

    @classmethod
    def reopen(cls, config):
        opened = _with_parametrization(config, None)
        return opened if cls.resolve(opened) == config else config

    @classmethod
    def check_settings(cls, config):
        if config.detector.blend and not is_trained(config.warmup):
            raise ValueError(
                "`blend` keeps a part of the warmed-up detector, but there is no warm-up. "
                f"Received: blend={config.detector.blend:g} and 0 epochs of the warm-up. "
                "Give --warmup_epochs, e.g. 6, or a blend of 0."
            )

    def check(self, run):
        warm = run.has("warmup")
        if not warm and not is_trained(run.settings):
            raise run.error(
                "Nothing would train the detector: both its epochs and those of the warm-up are "
                "0. Give --detector_epochs or --warmup_epochs."
            )
        if not warm and run.settings.initialize == "backbone":
            run.check_network()
        if run.settings.generator_weights not in ("shipped", "own"):
            build_generator(run)
        return (
            num_steps(run.settings, self._steps_per_epoch(run)) if is_trained(run.settings) else 0
        )

    def batches(self, run):
        from gc_net.training.folds import fold_batches

        if not is_trained(run.settings):
            return None
        settings = run.settings
        make = functools.partial(run.data.batches, settings.batch_size, **settings.crops())
        num_folds = run.config.classifier.num_folds
        if num_folds:
            make = functools.partial(fold_batches, make, run.folds(), num_folds)
        return Batches(make, self._steps_per_epoch(run), len(run.data.split))

    def build(self, run, num_steps):
        num_folds = run.config.classifier.num_folds if num_steps else 0
        # The model ends with none of these: in training mode, the statistics of a judging
        # classifier move to masked images.
        names = [fold_name(fold) for fold in range(num_folds)] or ["classifier"]
        judges = [run.load(name) for name in names]
        generator = build_generator(run)
        if run.has("warmup"):
            detector = run.load("warmup")
        else:
            classifier = run.load("classifier")
            run.set_seed()
            detector = build_detector(run.config, classifier)
        run.set_seed()
        run.freeze(detector)
        model = compose(run.settings, detector, generator, judges)
        if num_steps:
            compile_detector(model, run.settings, num_steps)
        return model

    def callbacks(self, run, model):
        from gc_net.training.callbacks import CorLoc, HealthCheck, ImageSummaries, some_pictures
        from gc_net.training.devices import replica_batch_size

        health = HealthCheck(
            report=print if run.chief else lambda message: None,
            # The spread is that within a batch, and a single image has none.
            watch_spread=replica_batch_size(run.settings.batch_size) > 1,
            fresh=not run.has("warmup"),
        )
        if not run.chief:
            return [health]
        callbacks = CorLoc.of(run, model)
        if run.options.tensorboard:
            callbacks.append(ImageSummaries(run.path("tensorboard"), some_pictures(run.data)))
        return [*callbacks, health]

    def finish(self, run, model):
        if run.settings.blend and is_trained(run.settings):
            blend(model.detector, run.load("warmup").get_weights(), run.settings.blend)
        run.save_weights(run.path(GENERATOR_FILE), model.generator)
        run.save(model.detector)

    def parts(self, run):
        from gc_net.weights import load_weights_npz

        generator = build_generator(run)
        load_weights_npz(run.path(GENERATOR_FILE), generator)
        return {"detector": run.load(self.name), "generator": generator}

    def _steps_per_epoch(self, run):
        num_folds = run.config.classifier.num_folds
        if not num_folds:
            return run.steps_per_epoch()
        import numpy as np

        # The smallest fold decides how often each fold has its turn.
        smallest = int(np.bincount(run.folds(), minlength=num_folds).min())
        return num_folds * run.steps_per_epoch(smallest)


def build_detector(config: Settings, classifier):
    """Return a new `Detector` with the weights that training starts from.

    Args:
        config: A `TrainConfig`.
        classifier: The trained `Classifier`, whose trunk may be used.
    """
    from gc_net.detector import Detector

    from_classifier = config.detector.initialize == "classifier"
    keep_initial = from_classifier or config.network.weights == "none"
    detector = Detector(
        config.network.backbone,
        config.detector.shape,
        image_size=config.data.image_size,
        head=config.detector.head,
        parametrization=config.detector.parametrization,
        weights=None if keep_initial else config.network.weights,
    )
    if from_classifier:
        for layer in detector.trunk.layers:  # all, or as far as the head looks at
            layer.set_weights(classifier.trunk.get_layer(layer.name).get_weights())
        _take_head(detector, classifier)
    return detector


def _take_head(detector, classifier):
    """Copy the hidden layers of the classifier's head, if the detector has the same head."""
    if detector.head_name != classifier.head_name:
        return
    for layer in detector.head.layers:
        if layer.name != "outputs":
            layer.set_weights(classifier.head.get_layer(layer.name).get_weights())


def build_generator(run):
    """Return the generator that the detector is trained with."""
    from gc_net import presets

    settings = run.config.detector
    weights = settings.generator_weights
    if weights in ("shipped", "own"):
        weights = run.result_path("generator") if run.has("generator") else "shipped"
    return generators.for_detector(
        settings.generator,
        settings.shape,
        run.config.data.image_size,
        epsilon=settings.epsilon,
        grid=presets.get(settings.preset).grid,
        network=settings.generator_network,
        weights=weights,
    )


def compose(settings: DetectorConfig, detector, generator, classifiers):
    """Return the `GCNet` to train; of several classifiers, each judges the fold of its number.

    Args:
        classifiers: One trained `Classifier`, or one per fold.
    """
    from gc_net import presets
    from gc_net.model import GCNet
    from gc_net.training.folds import CrossFittedGCNet, FoldClassifiers

    folded = len(classifiers) > 1
    return (CrossFittedGCNet if folded else GCNet)(
        detector,
        generator,
        FoldClassifiers(classifiers) if folded else classifiers[0],
        loss_weights=settings.term_weights(generator.kind, classifiers[0].num_classes),
        frozen_mode=presets.get(settings.preset).frozen_mode,
    )


def compile_detector(model, settings: DetectorConfig, num_steps: int) -> None:
    """Compile a `GCNet` with Adam and the rates of the settings."""
    from gc_net import presets
    from gc_net.optimizers import Adam, averaging

    # The first pattern that matches counts.
    multipliers = [
        (pattern, factor)
        for pattern, factor in (
            (HEAD_LAYERS, settings.head_multiplier),
            (SHARPNESS, settings.epsilon_multiplier),
        )
        if factor is not None
    ]
    multipliers += presets.get(settings.preset).multipliers
    rate = schedule(settings, num_steps)
    model.compile(Adam(rate, multipliers=multipliers, **averaging(settings.average)))


def schedule(settings: DetectorConfig, num_steps: int):
    """Return the learning rate of a `DetectorConfig`, a number or a Keras schedule."""
    import keras

    from gc_net import presets
    from gc_net.optimizers import warm_cosine

    if settings.schedule == "warm_cosine":
        return warm_cosine(settings.learning_rate, num_steps)
    if settings.schedule == "cosine":
        return keras.optimizers.schedules.CosineDecay(settings.learning_rate, num_steps)
    epochs = max(settings.epochs, 1)
    rates = [
        settings.learning_rate * presets.get(settings.preset).rate_factor(epoch, epochs)
        for epoch in range(epochs)
    ]
    if len(set(rates)) == 1:
        return rates[0]
    # A boundary is the last step of the rate before it.
    boundaries = [epoch * num_steps // epochs - 1 for epoch in range(1, epochs)]
    return keras.optimizers.schedules.PiecewiseConstantDecay(boundaries, rates)


def blend(detector, weights, part: float) -> None:
    """Move a trained detector back towards the weights that its training started from.

    Weights between those of a network and of its fine-tuned version give networks that are often
    better than either (Wortsman et al., 2022).

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


def _with_parametrization(config, name):
    detector = dataclasses.replace(config.detector, parametrization=name)
    return dataclasses.replace(config, detector=detector)
