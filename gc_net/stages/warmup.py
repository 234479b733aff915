"""The warm-up: before the classifier's word counts, the detector learns to place given shapes.

Left to the losses alone, a detector starts with the same shape for every image and has to find out
by small steps where to look. So it is first shown roughly where. No box is read.
"""

import dataclasses
import functools

from gc_net.settings import setting
from gc_net.stages.base import Batches, DetectorStageConfig, Stage
from gc_net.teachers import TEACHERS

TARGETS_FILE = "targets.npz"


@dataclasses.dataclass(frozen=True)
class WarmupConfig(DetectorStageConfig):
    """How the detector is warmed up, before what the classifier says counts; not in the paper.

    A teacher says roughly where the objects of the training images are, and the detector first
    learns to place shapes there.

    Attributes:
        epochs: Passes over the training images; 0 for no warm-up, as in the paper.
        learning_rate: Base rate of Adam; it falls to zero along a cosine.
        head_multiplier: Factor on the rate of the head's layers.
        teacher: Who shows where objects are: a known teacher, with settings of its own behind
            colons, e.g. silhouettes:size=192; the folder of a model that an earlier run has
            trained; or several, joined by +. See gc_net/teachers.
    """

    learning_rate: float = setting(3e-4, low=0.0)
    head_multiplier: float = setting(3.0, low=0.0)
    teacher: str = setting("descriptors", known=TEACHERS)


class WarmupStage(Stage):
    """Trains the detector to place the shapes that a teacher shows."""

    name = "warmup"
    title = "Warm-up"
    settings = WarmupConfig
    needs = ("classifier",)
    reads = (
        *Stage.reads,
        "detector.shape",
        "detector.head",
        "detector.parametrization",
        "detector.initialize",
    )
    # The detector begins with the same weights whether or not there is a warm-up.
    seed_name = "detector"

    def check(self, run):
        from gc_net import teachers

        if run.config.detector.initialize == "backbone":
            run.check_network()
        teachers.get(run.settings.teacher).check(_lesson(run))
        return super().check(run)

    def batches(self, run):
        from gc_net import teachers
        from gc_net.teachers.targets import find_targets

        teacher, lesson = teachers.get(run.settings.teacher), _lesson(run, run.load("classifier"))
        targets = find_targets(teacher, lesson, run.path(TARGETS_FILE), write=run.chief)
        make = functools.partial(target_batches, run.data, targets, run.settings)
        count = len(targets.indices)
        return Batches(make, run.steps_per_epoch(count), count)

    def build(self, run, num_steps):
        from gc_net.optimizers import Adam, averaging, warm_cosine
        from gc_net.stages.detector import HEAD_LAYERS, build_detector
        from gc_net.training.shape_matching import ShapeMatching

        settings = run.settings
        classifier = run.load("classifier")
        run.set_seed()
        detector = build_detector(run.config, classifier)
        run.freeze(detector)
        model = ShapeMatching(detector)
        model.compile(
            Adam(
                warm_cosine(settings.learning_rate, num_steps),
                multipliers=[(HEAD_LAYERS, settings.head_multiplier)],
                **averaging(settings.average),
            )
        )
        return model

    def finish(self, run, model):
        run.save(model.detector)


def target_batches(data, targets, settings: WarmupConfig, *, epoch: int, **position):
    """Return one epoch of (images, coefficients [B, n] of the shapes in their windows, weights).

    Args:
        data: The `TrainingData`.
        targets: The `Targets` that the teacher has given.
        position: As `TrainingData.batches` takes it.
    """
    import tensorflow as tf

    from gc_net.shapes.base import Shape

    windows = data.windows(epoch, **settings.crops())
    placed = Shape.in_windows(targets.coefficients, windows, data.resize_size)
    placed = tf.constant(placed, tf.float32)
    weights = tf.constant(targets.weights, tf.float32)
    position |= {"epoch": epoch, "with_index": True, **settings.crops()}
    batches = data.batches(settings.batch_size, targets.indices, **position)

    def with_targets(images, labels, index):
        return images, tf.gather(placed, index), tf.gather(weights, index)

    return batches.map(with_targets)


def _lesson(run, classifier=None):
    """Return what a teacher is given; without a classifier, to check whether it can teach."""
    from gc_net import backbones, shapes
    from gc_net.teachers.base import Lesson

    network = run.config.network
    shape, backbone = shapes.get(run.config.detector.shape), backbones.get(network.backbone)
    return Lesson(run.data, shape, backbone, network.weights, classifier)
