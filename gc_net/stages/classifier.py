"""The classifier, fine-tuned on the training images."""

import dataclasses

from gc_net import methods
from gc_net.methods import GC_NET, METHODS
from gc_net.settings import setting
from gc_net.shapes import SHAPES
from gc_net.stages.base import Batches, Stage, StageConfig
from gc_net.stages.networks import build_classifier


@dataclasses.dataclass(frozen=True)
class ClassifierConfig(StageConfig):
    """How the classifier is fine-tuned.

    Attributes:
        recipe: fast is AdamW with a rate that falls along a cosine. paper is the authors' SGD. Its
            rate is cut to a tenth after 40 % and 75 % of the epochs, and is larger for biases and
            the last layer. none takes ImageNet weights as they are.
        learning_rate: Highest rate; None for the recipe's own, 6e-4 or 1e-3.
        weight_decay: None for the recipe's own: 0.01 (decoupled) or 5e-4 (in the gradient).
        mask_fraction: Part of the images that the classifier sees through a random shape, so that
            it knows masked images.
        mask_shape: Shape of these masks.
        mask_min_extent: Smallest width and height of a mask, as a part of the image's.
        mask_max_extent: Largest width and height of a mask.
        mask_inverted: Part of the masks that show what lies outside instead.
        num_folds: With 2 or more, the images are split into this many parts, and a classifier that
            was fitted on the other parts judges each of them; 0 for one classifier on all images.
        finer_map: Leave out the network's last step down in resolution. Heat maps are then twice as
            fine, as in papers on class activation maps, and training takes longer. The detector's
            network is not changed.
        method: Method to train: gc_net, or another of gc_net/methods. The classifier is then
            trained as that method does, and there is no detector.
    """

    epochs: int = setting(8, low=1)
    recipe: str = setting("fast", ("fast", "paper", "none"))
    learning_rate: float | None = setting(None, low=0.0)
    weight_decay: float | None = setting(None, low=0.0)
    mask_fraction: float = setting(0.0, low=0.0, high=1.0)
    mask_shape: str = setting("rotated_rectangle", SHAPES.names)
    mask_min_extent: float = setting(0.55, low=0.0, high=2.0)
    mask_max_extent: float = setting(1.1, low=0.0, high=2.0)
    mask_inverted: float = setting(0.0, low=0.0, high=1.0)
    num_folds: int = setting(0, low=0)
    finer_map: bool = setting(False)
    method: str = setting(GC_NET, known=METHODS, flag="method")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method != GC_NET and self.method not in METHODS:
            raise ValueError(
                f"`method` must be {GC_NET}, or one of {', '.join(METHODS)}. "
                f"Received: method={self.method!r}"
            )
        if self.num_folds == 1:
            raise ValueError("`num_folds` must be 0, or at least 2. Received: num_folds=1")
        if self.mask_min_extent > self.mask_max_extent:
            raise ValueError(
                "`mask_min_extent` must not exceed `mask_max_extent`. Received: "
                f"{self.mask_min_extent} and {self.mask_max_extent}"
            )


class ClassifierStage(Stage):
    """Trains the classifier on all training images."""

    name = "classifier"
    title = "Classifier"
    settings = ClassifierConfig
    provides = ("classifier",)
    of_all_methods = True

    def recorded(self, settings):
        # Methods that train nothing of their own have one and the same classifier as GC-Net, which
        # runs can share.
        section = settings["classifier"]
        plain = section["method"] != GC_NET and not methods.get(section["method"]).trains
        return {**settings, "classifier": {**section, "method": GC_NET}} if plain else settings

    def likely_steps(self, config, num_images):
        recipe = self.own_settings(config).recipe
        return 0 if recipe == "none" else super().likely_steps(config, num_images)

    def check(self, run):
        classifier, method = run.check_network(), run.settings.method
        if method != GC_NET:
            from gc_net.methods.base import Unsuitable

            try:
                methods.get(method).check(classifier)
            except Unsuitable as error:
                raise run.error(f"--method={method} cannot be used: {error}") from error
        return 0 if run.settings.recipe == "none" else super().check(run)

    def batches(self, run) -> Batches | None:
        return None if run.settings.recipe == "none" else super().batches(run)

    def build(self, run, num_steps):
        from gc_net.training.masked_classifier import MaskedClassifier, optimizer
        from gc_net.training.masks import RandomMasks

        settings = run.settings
        classifier = build_classifier(run.config, len(run.class_names))
        run.freeze(classifier)
        masks = RandomMasks(
            settings.mask_shape,
            settings.mask_fraction,
            settings.mask_min_extent,
            settings.mask_max_extent,
            settings.mask_inverted,
            seed=run.config.seed,
        )
        if settings.method == GC_NET:
            model = MaskedClassifier(classifier, masks)
        else:
            model = methods.get(settings.method).trained(
                classifier, masks, run.config.seed, run.dataset.class_families()
            )
        if num_steps:
            model.compile(optimizer(settings, num_steps))
        return model

    def finish(self, run, model):
        run.save(model.classifier)

    def parts(self, run):
        return {"classifier": run.load(self.name)}
