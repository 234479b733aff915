"""The second classifier, which learns to name close-ups of the detector's shapes.

The classifier sees whole images, in which an object may be small. To supervise the detector, it
also has to name parts of images. Once the detector has placed its shapes, a second classifier needs
to do neither. It is trained only on close-ups, at its own image size. Close-ups are the regions of
the second look, cut out of the original images. No box is read.
"""

import dataclasses
import functools
from typing import TYPE_CHECKING

from gc_net.settings import Settings, setting
from gc_net.stages.base import Batches, Stage, StageConfig, is_trained
from gc_net.stages.networks import untrained

if TYPE_CHECKING:
    import numpy as np

    from gc_net.stages.stage_run import StageRun
    from gc_net.training.data import TrainingData

BOXES_FILE = "boxes.npz"
_BATCH_SIZE = 32


@dataclasses.dataclass(frozen=True)
class SecondClassifierConfig(StageConfig):
    """How a classifier for the second look is trained; not in the paper.

    Attributes:
        epochs: Passes over the training images; 0 for no second classifier: the classifier itself
            looks twice.
        image_size: Side of the square close-ups that it sees.
        learning_rate: Highest rate of AdamW; it falls to zero along a cosine.
        weight_decay: Decoupled from the gradient.
        smoothing: Part of each label that is spread evenly over all classes.
        augmentation: Strength of random zooms and lighting, which keep the classifier from
            memorizing its close-ups; 0 for none, 1 for the usual strength.
    """

    image_size: int = setting(224, low=32)
    learning_rate: float = setting(6e-4, low=0.0)
    weight_decay: float = setting(0.01, low=0.0)
    smoothing: float = setting(0.1, low=0.0, high=1.0)
    augmentation: float = setting(1.0, low=0.0, high=3.0)


class SecondClassifierStage(Stage):
    """Trains a classifier of close-ups."""

    name = "second_classifier"
    title = "Second classifier"
    settings = SecondClassifierConfig
    needs = ("classifier", "detector")
    provides = ("second_classifier",)
    reads = (*Stage.reads, "second_look")

    @classmethod
    def check_settings(cls, config):
        if is_trained(config.second_classifier) and not config.second_look:
            raise ValueError(
                "A second classifier names what the second look shows, and `second_look` sets its "
                f"region. Received: {config.second_classifier.epochs} epochs of the second "
                "classifier, and no second look. Give one, e.g. --second_look=1, or "
                "--second_classifier_epochs=0."
            )

    def check(self, run):
        run.check_network(run.settings.image_size)
        return super().check(run)

    def batches(self, run):
        import numpy as np

        boxes_rel_xyxy = find_boxes(run)
        data = close_up_data(run.data, boxes_rel_xyxy, run.config)
        images = np.flatnonzero(np.isfinite(boxes_rel_xyxy[:, 0]))
        make = functools.partial(data.batches, run.settings.batch_size, images)
        return Batches(make, run.steps_per_epoch(len(images)), len(images))

    def build(self, run, num_steps):
        from gc_net.losses.classes import ClassLoss
        from gc_net.training.masked_classifier import (
            MaskedClassifier,
            augmentation,
            fast_optimizer,
        )

        settings = run.settings
        classifier = untrained(
            run.config, len(run.class_names), settings.image_size, name=self.name
        )
        run.freeze(classifier)
        layer = augmentation(settings.augmentation, run.config.seed)
        model = MaskedClassifier(classifier, augmentation=layer)
        model.compile(fast_optimizer(settings, num_steps), ClassLoss(settings.smoothing))
        return model

    def finish(self, run, model):
        run.save(model.classifier)

    def parts(self, run):
        return {"second_classifier": run.load(self.name)}


def find_boxes(run: "StageRun") -> "np.ndarray":
    """Return the upright boxes [N, 4] of the shapes in the training images, relative to them.

    Rows of unreadable images are NaN. They are kept in the stage's folder.
    """
    import numpy as np

    from gc_net.data.pipeline import evaluation_batches, num_steps
    from gc_net.localizer import placer
    from gc_net.progress import track
    from gc_net.stages.run_folder import read_array, write_array

    path, data = run.path(BOXES_FILE), run.data
    found = read_array(path, "boxes_rel_xyxy")
    if found is not None:
        return found
    # By one view: training need not pay for the mirror image.
    place = placer(run.localizer().detector, data.resize_size)
    boxes_rel_xyxy = np.full((len(data.split), 4), np.nan, np.float32)
    batches = evaluation_batches(
        data.split,
        image_size=data.resize_size,
        batch_size=_BATCH_SIZE,
        frame="full",
        unreadable=data.unreadable,
    )
    total = num_steps(len(data.split), _BATCH_SIZE, drop_remainder=False)
    for batch in track(batches, total, "Placing shapes"):
        boxes_rel_xyxy[batch["index"].numpy()] = place(batch["image"]).boxes.numpy()
    if run.chief:
        write_array(path, boxes_rel_xyxy=boxes_rel_xyxy)
    return boxes_rel_xyxy


def close_up_data(
    data: "TrainingData", boxes_rel_xyxy: "np.ndarray", config: Settings
) -> "TrainingData":
    """Return close-ups of the training images as `TrainingData`.

    A random window of one shows as much as the second look does: what is cut out is larger by what
    the window leaves out.

    Args:
        data: The `TrainingData` of the whole images.
        boxes_rel_xyxy: [N, 4], see `find_boxes`.
        config: A `TrainConfig`.
    """
    from gc_net.data.crops import regions
    from gc_net.training.data import TrainingData

    image_size = config.second_classifier.image_size
    settings = dataclasses.replace(config.data, image_size=image_size, resize_size=0)
    # Not cached: what a close-up shows depends on the detector.
    close = TrainingData(data.split, settings, data.seed)
    squares = regions(boxes_rel_xyxy, config.second_look * close.resize_size / close.image_size)
    read = functools.partial(_read, data.split.read, squares, close.resize_size)
    close.split = dataclasses.replace(data.split, read=read)
    close.unreadable = data.unreadable
    return close


def _read(read, squares, target, index):
    from gc_net.data.crops import read_region

    return read_region(read, index, squares[index], target)
