"""What every teacher offers, and how it is asked."""

import abc
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np

from gc_net.backbones.base import Backbone
from gc_net.classifier import Classifier
from gc_net.data.pipeline import evaluation_batches, num_steps
from gc_net.heat_maps import largest_parts
from gc_net.progress import track
from gc_net.settings import Settings, setting
from gc_net.shapes.base import Shape
from gc_net.training.data import TrainingData

_BATCH_SIZE = 32


class Targets(NamedTuple):
    """Shapes for images.

    Attributes:
        coefficients: float32 [N, n], relative to the whole images; NaN where there is none.
        weights: float32 [N], from 0, not to be trusted, to 1.
    """

    coefficients: np.ndarray
    weights: np.ndarray

    @classmethod
    def none(cls, count: int, shape: Shape) -> "Targets":
        """Return targets for `count` images of which none has a shape yet."""
        return cls(
            np.full((count, shape.num_coefficients), np.nan, np.float32),
            np.zeros(count, np.float32),
        )

    @property
    def indices(self) -> np.ndarray:
        """The images that have a shape of some weight."""
        return np.flatnonzero(np.isfinite(self.coefficients[:, 0]) & (self.weights > 0))


@dataclasses.dataclass
class Lesson:
    """What a teacher is given; boxes are not among it.

    Attributes:
        data: The training images.
        shape: The shape that the detector places.
        backbone: The backbone of the run's networks.
        weights: What they start from: `"imagenet"`, a file, or `"none"`.
        classifier: The trained classifier; None while a teacher is only checked.
    """

    data: TrainingData
    shape: Shape
    backbone: Backbone
    weights: str
    classifier: Classifier | None = None
    _made: dict = dataclasses.field(default_factory=dict)

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` returned when it was first asked for by `key`."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def maps(self, teacher: "MapTeacher") -> "Maps":
        """Return a teacher's `Maps`, fitted once however many others build on them."""
        # Neither its share nor its angles change the maps.
        key = dataclasses.replace(teacher, share=1.0, upright=False)
        return self.once(key, lambda: teacher.fit_maps(self))

    def batches(self, image_size: int, label: str, indices=None) -> Any:
        """Return the training images, whole and squashed to `image_size`, as dicts of a batch."""
        data = self.data
        count = len(data.split) if indices is None else len(indices)
        batches = evaluation_batches(
            data.split,
            image_size=image_size,
            batch_size=_BATCH_SIZE,
            frame="full",
            indices=indices,
            cache=data.cache if image_size == data.resize_size else None,
            unreadable=data.unreadable,
        )
        return track(batches, num_steps(count, _BATCH_SIZE, drop_remainder=False), label)


class Placer(NamedTuple):
    """A teacher that is ready.

    Attributes:
        image_size: Side of the square images that it is shown; they are whole.
        place: Function of images [B, S, S, 3] to their `Targets`.
    """

    image_size: int
    place: Callable[[Any], Targets]


@dataclasses.dataclass(frozen=True)
class Teacher(Settings, abc.ABC):
    """Says where the objects of training images are. Its attributes are its settings.

    Attributes:
        share: How much its word counts in a committee.
    """

    name: ClassVar[str]
    share: float = setting(1.0, low=0.0)

    def check(self, lesson: Lesson) -> None:
        """Raise `RunError` if it will have nothing to teach; called before anything is trained."""
        return None

    @abc.abstractmethod
    def placer(self, lesson: Lesson) -> Placer:
        """Get ready, e.g. fit what needs fitting."""

    def targets(self, lesson: Lesson) -> Targets:
        """Return a target for each training image."""
        return self.joined(lesson, iter(ask(self.asked(), lesson)))

    def asked(self) -> list["Teacher"]:
        """Return the teachers that look at images: itself, or those of a committee."""
        return [self]

    def joined(self, lesson: Lesson, found: Iterator[Targets]) -> Targets:
        """Return its targets, given those of all `asked`; takes as many as it has asked."""
        return next(found)


class Maps:
    """Function of whole images to maps [B, h, w] that are positive on objects.

    Args:
        image_size: Side of the square images.
        function: The function.
    """

    def __init__(self, image_size: int, function: Callable[[Any], Any]):
        self.image_size = image_size
        self._function = function
        self._images = self._values = None

    def __call__(self, images) -> np.ndarray:
        # Several teachers may ask about one batch in turn.
        if images is not self._images:
            self._images, self._values = images, np.asarray(self._function(images), np.float32)
        return self._values


@dataclasses.dataclass(frozen=True)
class MapTeacher(Teacher):
    """A teacher that has a map of each image, and fits the shape to what lies above zero in it.

    Attributes:
        upright: Show upright shapes, even where the detector's can rotate: coarse maps of round
            objects tell no angle, and what they seem to tell is hard to unlearn.
    """

    upright: bool = False

    def trunk(self, lesson: Lesson, image_size: int) -> keras.Model:
        """Return the trunk by whose features it knows objects: the backbone's, if it has none."""
        trunk = lesson.backbone.trunk(image_size)
        lesson.backbone.load_weights(trunk, weights=lesson.weights)
        return trunk

    @abc.abstractmethod
    def fit_maps(self, lesson: Lesson) -> Maps:
        """Return the function of images to maps; called once, see `Lesson.maps`."""

    def masks(self, images, maps: np.ndarray, size: int) -> np.ndarray:
        """Return the masks [B, ., .] of the objects, empty where there is none."""
        return largest_parts(maps, size)

    def placer(self, lesson: Lesson) -> Placer:
        maps, shape = lesson.maps(self), lesson.shape

        def place(images):
            targets = Targets.none(len(images), shape)
            for row, mask in enumerate(self.masks(images, maps(images), maps.image_size)):
                if mask.any():
                    targets.coefficients[row] = shape.fit(mask, self.upright)
                    targets.weights[row] = 1.0
            return targets

        return Placer(maps.image_size, place)


def ask(teachers: Sequence[Teacher], lesson: Lesson) -> list[Targets]:
    """Return the targets of each teacher; those that look at images of one size share a pass."""
    placers = [teacher.placer(lesson) for teacher in teachers]
    found = [Targets.none(len(lesson.data.split), lesson.shape) for _ in teachers]
    for image_size in sorted({placer.image_size for placer in placers}):
        for batch in lesson.batches(image_size, "Asking the teacher"):
            index = batch["index"].numpy()
            for placer, targets in zip(placers, found, strict=True):
                if placer.image_size == image_size:
                    placed = placer.place(batch["image"])
                    targets.coefficients[index] = placed.coefficients
                    targets.weights[index] = placed.weights
    return found
