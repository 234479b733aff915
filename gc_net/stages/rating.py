"""The rating: the trained detector learns to tell how well its own boxes fit.

It changes the confidence alone. All boxes stay as they are, and no box is read.
"""

import dataclasses
from typing import TYPE_CHECKING

from gc_net.settings import Settings, setting
from gc_net.stages.base import Cost, Stage
from gc_net.teachers import TEACHERS

if TYPE_CHECKING:
    from gc_net.classifier import Classifier
    from gc_net.data.splits import Split
    from gc_net.detector import Detector
    from gc_net.localizer import Localizer
    from gc_net.training.data import TrainingData

# Neither has taught the head alone: a detector agrees too well with its own teacher.
TEACHER = "descriptors:centered=true:share=0.3+silhouettes:centered=true:share=0.7"


@dataclasses.dataclass(frozen=True)
class RatingConfig(Settings):
    """How a head of edges learns to rate its boxes, which is its confidence; not in the paper.

    Attributes:
        images: Most training images that it learns from, spread over all; 0 for no rating. A few
            hundred will do.
        teacher: Teacher whose boxes are compared with the detector's; as for the warm-up. See
            gc_net/teachers.
    """

    images: int = setting(0, low=0)
    teacher: str = setting(TEACHER, known=TEACHERS)


class RatingStage(Stage):
    """Fits the last layer of a rated head."""

    name = "rating"
    title = "Rating"
    settings = RatingConfig
    needs = ("classifier", "detector")
    provides = ("detector",)

    @classmethod
    def units(cls, config):
        return [cls()] if config.rating.images else []

    @classmethod
    def check_settings(cls, config):
        from gc_net.heads import RATED_HEADS

        if config.rating.images and config.detector.head not in RATED_HEADS:
            raise ValueError(
                "Only the head `edges` can learn to rate its boxes. Received: rating_images="
                f"{config.rating.images} and head={config.detector.head!r}. Give "
                "--detector_head=edges, or --rating_images=0."
            )

    def cost(self, config, num_images):
        from gc_net import backbones, teachers

        count = min(config.rating.images, num_images)
        scale = (backbones.get(config.network.backbone).image_size / config.data.image_size) ** 2
        return Cost(scale * teachers.get(config.rating.teacher).passes(count) + 2 * count, 0.0)

    def likely_steps(self, config, num_images):
        return 0

    def check(self, run):
        from gc_net import teachers

        lesson = _lesson(run.data, run.config.network.backbone, run.config.network.weights)
        teachers.get(run.settings.teacher).check(lesson)
        return 0

    def batches(self, run):
        return None

    def build(self, run, num_steps):
        weights = run.config.network.weights
        networks = run.load("detector"), run.load("classifier")
        return rated_detector(*networks, run.data, weights, run.settings, verbose=run.chief)

    def finish(self, run, model):
        run.save(model)

    def parts(self, run):
        return {"detector": run.load(self.name)}


def rated_detector(
    detector: "Detector",
    classifier: "Classifier",
    data: "TrainingData",
    weights: str,
    settings: RatingConfig,
    verbose: bool = True,
) -> "Detector":
    """Return a detector of the same shapes that has learned to rate them.

    Args:
        detector, classifier: Those of a model.
        data: Its training images.
        weights: What its networks started from, for teachers that know these weights alone.
        settings: How it learns.
        verbose: Whether to print how far detector and teacher agree.
    """
    import numpy as np

    from gc_net import teachers
    from gc_net.training.rating import can_be_rated, rated

    if not can_be_rated(detector.head_name):
        raise ValueError(
            f"A detector with the head {detector.head_name!r} cannot learn to rate its boxes, only "
            "one with --detector_head=edges, as recipes/photos.flags has it. Its confidence is how "
            "far it agrees with itself in the mirror image."
        )
    count = len(data.split)
    chosen = np.linspace(0, count - 1, min(settings.images, count)).astype(int)
    lesson = _lesson(data.part(chosen), detector.backbone.name, weights, classifier)
    found, iou = rated(detector, teachers.get(settings.teacher), lesson)
    if verbose:
        print(f"The detector's boxes and those of the rating's teacher agree by {iou:.3f}.")
    return found


def rated_localizer(localizer: "Localizer", split: "Split", settings: RatingConfig) -> "Localizer":
    """Return a localizer of the same shapes and classes that has learned to rate its shapes.

    Args:
        localizer: A `Localizer`, from any training.
        split: Images to learn from, of the kind that it was trained on.
        settings: How it learns.
    """
    from gc_net.stages.config import DataConfig
    from gc_net.training.data import TrainingData

    record = localizer.record
    sizes = {"image_size": localizer.image_size, "resize_size": localizer.resize_size}
    data = TrainingData(split, DataConfig(**sizes), seed=0)
    weights = record.settings.get("network", {}).get("weights", "imagenet")
    with data.readable():
        networks = localizer.detector, localizer.classifier
        detector = rated_detector(*networks, data, weights, settings)
    record = dataclasses.replace(
        record,
        settings={**record.settings, RatingStage.name: settings.to_dict()},
        stages=[*(name for name in record.stages if name != RatingStage.name), RatingStage.name],
    )
    return localizer.replace(detector=detector, record=record)


def _lesson(data, backbone, weights, classifier=None):
    from gc_net import backbones, shapes
    from gc_net.teachers.base import Lesson

    return Lesson(data, shapes.get("rectangle"), backbones.get(backbone), weights, classifier)
