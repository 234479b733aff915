"""The warm-up: before the classifier judges it, the detector learns to place given shapes.

With the losses alone, a detector starts with the same shape for every image and has to find out by
small steps where to look. So a teacher first shows it roughly where. No box is read.
"""

import dataclasses
import functools
import os
import tempfile

from gc_net.settings import setting
from gc_net.stages.base import Batches, Cost, DetectorStageConfig, Stage, is_trained, num_steps
from gc_net.stages.run_folder import read_array
from gc_net.teachers import TEACHERS

TARGETS_FILE = "targets.npz"
# A step of the head alone, in forward passes of the whole network for an image: measured.
_HEAD_PASSES = 0.3


@dataclasses.dataclass(frozen=True)
class WarmupConfig(DetectorStageConfig):
    """How the detector is warmed up before the classifier judges it; not in the paper.

    A teacher says roughly where the objects of the training images are, and the detector first
    learns to place shapes there. If no layer of its trunk is trained (train_from=head), the
    features of each image and of its mirror image are computed once, and a step takes a tenth of
    the time.

    Attributes:
        epochs: Passes over the training images; 0 for no warm-up, as in the paper.
        learning_rate: Base rate of Adam; it falls to zero along a cosine.
        head_multiplier: Factor on the rate of the head's layers.
        teacher: Teacher that shows where objects are: a known teacher, with its settings after
            colons, e.g. silhouettes:size=192; the folder of a model that an earlier run has
            trained; or several, joined by +. See gc_net/teachers.
        rounds: From the second round on, the detector's own shapes join those of the teacher, and
            training continues at half the rate. A third or later round is left out if the detector
            agrees no better with itself in mirror images than before.
    """

    learning_rate: float = setting(3e-4, low=0.0)
    head_multiplier: float = setting(3.0, low=0.0)
    teacher: str = setting("descriptors", known=TEACHERS)
    rounds: int = setting(1, low=1, high=9)


class WarmupStage(Stage):
    """Trains the detector to place the shapes that a teacher shows.

    Args:
        number: Number of the round, from 1.
        rounds: How many rounds there are. The run continues with the result of the last one.
    """

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

    def __init__(self, number: int = 1, rounds: int = 1):
        self.number = number
        self.is_last = number == rounds
        if not self.is_last:
            self.name = round_name(number)
        if rounds > 1:
            self.title = f"Warm-up, round {number}"
        if number > 1:
            self.follows = round_name(number - 1)

    @classmethod
    def units(cls, config):
        rounds = config.warmup.rounds
        units = [cls(number, rounds) for number in range(1, rounds + 1)]
        return units if is_trained(config.warmup) else []

    def cost(self, config, num_images):
        from gc_net import backbones, teachers

        settings = self.own_settings(config)
        if self.number > 1 and _head_alone(settings):
            return Cost(0.0, _HEAD_PASSES * settings.batch_size)  # features and teacher were asked
        # A teacher looks at images of its network's usual size.
        scale = (backbones.get(config.network.backbone).image_size / config.data.image_size) ** 2
        asking = scale * teachers.get(settings.teacher).passes(num_images)
        if not _head_alone(settings):
            return Cost(asking, super().cost(config, num_images).step)
        return Cost(asking + 2 * num_images, _HEAD_PASSES * settings.batch_size)

    def likely_steps(self, config, num_images):
        settings = self.own_settings(config)
        if not _head_alone(settings):
            return super().likely_steps(config, num_images)
        # A pass is over images and their mirror images.
        return num_steps(settings, max(2 * num_images // settings.batch_size, 1))

    def check(self, run):
        from gc_net import teachers

        if self.number == 1:  # later rounds use the same network and teacher
            if run.config.detector.initialize == "backbone":
                run.check_network()
            teachers.get(run.settings.teacher).check(_lesson(run))
        super().check(run)
        return self.likely_steps(run.config, len(run.data.split))

    def batches(self, run):
        from gc_net import teachers
        from gc_net.heads.edges import mask_size
        from gc_net.teachers.targets import find_targets
        from gc_net.training.features import Features

        teacher, lesson = teachers.get(run.settings.teacher), _lesson(run, run.load("classifier"))
        first = None if self.number == 1 else round_name(1)
        path = run.path(TARGETS_FILE, of=first)
        targets = find_targets(teacher, lesson, path, write=run.chief and not first)
        detector, indices = self._detector(run), targets.indices
        features = None
        if on_features(run, detector):
            features = Features(features_folder(run), detector, run.data, indices)
        if first:
            targets = self._with_own(run, lesson, targets, detector, features)
            if targets is None:
                return None
        size = mask_size(detector.head) if lesson.with_masks else None
        if features is None:
            make = functools.partial(target_batches, run.data, targets, run.settings, size)
            return Batches(make, run.steps_per_epoch(len(targets.indices)), len(targets.indices))
        make = functools.partial(feature_batches, features, run.data, targets, run.settings, size)
        return Batches(make, run.steps_per_epoch(features.num_views), features.num_views)

    def build(self, run, num_steps):
        from gc_net import heads
        from gc_net.optimizers import Adam, averaging, warm_cosine
        from gc_net.stages.detector import HEAD_LAYERS
        from gc_net.training.edge_matching import EdgeMatching
        from gc_net.training.shape_matching import ShapeMatching

        settings = run.settings
        detector = self._detector(run)
        matching = EdgeMatching if heads.get(detector.head_name).has_mask else ShapeMatching
        model = matching(detector, on_features=on_features(run, detector))
        if not num_steps:
            return model
        rate = settings.learning_rate * (1.0 if self.number == 1 else 0.5)
        model.compile(
            Adam(
                warm_cosine(rate, num_steps),
                multipliers=[(HEAD_LAYERS, settings.head_multiplier)],
                **averaging(settings.average),
            )
        )
        return model

    def finish(self, run, model):
        from gc_net.training.features import remove_features

        run.save(model.detector)
        if self.is_last:
            remove_features(features_folder(run))

    def _detector(self, run):
        """Return the detector that training starts from, the same in each call."""
        from gc_net.stages.detector import build_detector

        if self.follows:
            detector = run.load(self.follows)
        else:
            classifier = run.load("classifier")
            run.set_seed()
            detector = build_detector(run.config, classifier)
        run.freeze(detector)
        return detector

    def _with_own(self, run, lesson, targets, detector, features):
        """Return targets with the detector's own shapes; None to leave this round out."""
        from gc_net.teachers.own_shapes import joined_by_own, own_targets
        from gc_net.teachers.targets import read_targets, write_targets

        path = run.path(TARGETS_FILE)
        found = read_targets(path, lesson)
        if found is None:
            own = own_targets(detector, lesson, features)
            agreement = float(own.weights[targets.indices].mean())
            found = joined_by_own(lesson.shape, targets, own)
            if run.chief:
                write_targets(path, found, agreement=agreement)
                print(f"The detector agrees with itself in mirror images by {agreement:.3f}.")
        if self.number == 2:
            return found
        before, now = (
            read_array(run.path(TARGETS_FILE, of=stage), "agreement")
            for stage in (self.follows, None)
        )
        if before is None or now is None or now > before:
            return found
        if run.chief:
            print("That is no better than a round before, so this round is left out.")
        return None


def round_name(number: int) -> str:
    """Return the name of a round that is not the last, and of its folder."""
    return f"warmup_round{number}"


def _head_alone(settings):
    """Return whether the head learns from features that are computed once, by the settings."""
    return settings.train_from == "head" and _one_window(settings)


def _one_window(settings):
    """Return whether all windows are of the usual size."""
    return not settings.crop_scale and settings.crop_aspect == 1


def on_features(run, detector) -> bool:
    """Return whether the head is trained on features that are computed once.

    It is if no layer of the trunk is trained, if all windows have the usual size, and if the
    features do not take too much space.
    """
    from gc_net.training.features import LARGEST_BYTES, num_bytes

    if detector.trunk.trainable_variables or not _one_window(run.settings):
        return False
    return num_bytes(detector, len(run.data.split)) <= LARGEST_BYTES


def features_folder(run) -> str:
    """Return the folder of features while they are needed; each process has its own.

    All rounds use the same features.
    """
    if run.chief:
        return os.path.join(os.path.dirname(run.folder), "warmup_features")
    return os.path.join(tempfile.gettempdir(), f"gc_net_features_{os.getpid()}")


def feature_batches(features, data, targets, settings, mask_size, *, epoch: int, **position):
    """Return one epoch of (features, their targets, weights).

    Args:
        features: The `Features` of images and mirror images.
        data: The `TrainingData`.
        targets: The teacher's `Targets`.
        mask_size: Side of the masks to learn; None for a head without masks.
        position: Arguments of `TrainingData.batches`.
    """
    import numpy as np

    from gc_net.training.shown_targets import ShownTargets

    images = np.tile(features.indices, 2)
    windows = features.windows(data)
    shown = ShownTargets(targets, windows, data.resize_size, images, mask_size)
    batches = features.batches(settings.batch_size, seed=data.seed, epoch=epoch, **position)
    return batches.map(lambda maps, views: (maps, *shown(views)))


def target_batches(data, targets, settings, mask_size=None, *, epoch: int, **position):
    """Return one epoch of (images, targets of their windows, weights).

    Args:
        data: The `TrainingData`.
        targets: The teacher's `Targets`.
        settings: The `WarmupConfig`.
        mask_size: Side of the masks to learn; None for a head without masks.
        position: Arguments of `TrainingData.batches`.
    """
    from gc_net.training.shown_targets import ShownTargets

    windows = data.windows(epoch, **settings.crops())
    shown = ShownTargets(targets, windows, data.resize_size, mask_size=mask_size)
    position |= {"epoch": epoch, "with_index": True, **settings.crops()}
    batches = data.batches(settings.batch_size, targets.indices, **position)
    return batches.map(lambda images, labels, index: (images, *shown(index)))


def _lesson(run, classifier=None):
    """Return the input of a teacher; without a classifier, only to check whether it can teach."""
    from gc_net import backbones, heads, shapes
    from gc_net.teachers.base import Lesson

    network = run.config.network
    # A head of edges learns boxes; the angle of a rotated shape comes from the mask.
    with_masks = heads.get(run.config.detector.head).has_mask
    shape = shapes.get("rectangle" if with_masks else run.config.detector.shape)
    backbone = backbones.get(network.backbone)
    return Lesson(run.data, shape, backbone, network.weights, classifier, with_masks)
