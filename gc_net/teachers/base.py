"""What every teacher offers, and how it is asked."""

import abc
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import cv2
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

MASK_SIZE = 28
_BATCH_SIZE = 32


class Targets(NamedTuple):
    """Shapes for images.

    Attributes:
        coefficients: float32 [N, n], relative to the whole images; NaN where there is none.
        weights: float32 [N], from 0, not to be trusted, to 1.
        masks: uint8 [N, 28, 28], how likely each cell of the whole image is a part of the object,
            in 255ths; None where the lesson does not ask for them.
    """

    coefficients: np.ndarray
    weights: np.ndarray
    masks: np.ndarray | None = None

    @classmethod
    def none(cls, count: int, shape: Shape, with_masks: bool = False) -> "Targets":
        """Return targets for `count` images of which none has a shape yet."""
        return cls(
            np.full((count, shape.num_coefficients), np.nan, np.float32),
            np.zeros(count, np.float32),
            np.zeros((count, MASK_SIZE, MASK_SIZE), np.uint8) if with_masks else None,
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
        with_masks: Whether the targets are to have masks, too.
    """

    data: TrainingData
    shape: Shape
    backbone: Backbone
    weights: str
    classifier: Classifier | None = None
    with_masks: bool = False
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

    def classifier_trunk(self, image_size: int) -> keras.Model:
        """Return the classifier's trunk for images of another size; untrained without one."""
        trunk = self.backbone.trunk(image_size)
        if self.classifier is not None:
            trunk.set_weights(self.classifier.trunk.get_weights())
        return trunk

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
    # Whether its masks have the outline of an object, and not only its place. In a committee, masks
    # of those that have are not blurred by others.
    outlines: ClassVar[bool] = True
    share: float = setting(1.0, low=0.0)

    def check(self, lesson: Lesson) -> None:
        """Raise `RunError` if it will have nothing to teach; called before anything is trained."""
        return None

    def passes(self, num_images: int) -> float:
        """Return about how many forward passes of a network asking it takes, to tell the time."""
        return 3.0 * num_images

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
        level: Where the maps were cut to have zero there.
    """

    def __init__(self, image_size: int, function: Callable[[Any], Any], level: float = 0.0):
        self.image_size = image_size
        self.level = level
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

    def soft_masks(self, maps: "Maps", values: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """Return how likely each cell is a part of the object, [B, ., .] in 0–1.

        Args:
            values: What `maps` says of the images.
            masks: What `masks` made of it.
        """
        return masks

    def placer(self, lesson: Lesson) -> Placer:
        maps, shape = lesson.maps(self), lesson.shape

        def place(images):
            targets = Targets.none(len(images), shape, lesson.with_masks)
            values = maps(images)
            masks = self.masks(images, values, maps.image_size)
            for row, mask in enumerate(masks):
                if mask.any():
                    targets.coefficients[row] = shape.fit(mask, self.upright)
                    targets.weights[row] = 1.0
            if lesson.with_masks:
                targets.masks[:] = small_masks(self.soft_masks(maps, values, masks))
            return targets

        return Placer(maps.image_size, place)


def ask(teachers: Sequence[Teacher], lesson: Lesson) -> list[Targets]:
    """Return the targets of each teacher; those that look at images of one size share a pass."""
    placers = [teacher.placer(lesson) for teacher in teachers]
    count = len(lesson.data.split)
    found = [Targets.none(count, lesson.shape, lesson.with_masks) for _ in teachers]
    for image_size in sorted({placer.image_size for placer in placers}):
        for batch in lesson.batches(image_size, "Asking the teacher"):
            index = batch["index"].numpy()
            for placer, targets in zip(placers, found, strict=True):
                if placer.image_size == image_size:
                    placed = placer.place(batch["image"])
                    targets.coefficients[index] = placed.coefficients
                    targets.weights[index] = placed.weights
                    if lesson.with_masks:
                        masks = placed.masks
                        if masks is None:
                            masks = drawn_masks(lesson.shape, placed.coefficients)
                        targets.masks[index] = masks
    return found


def small_masks(masks: np.ndarray) -> np.ndarray:
    """Return masks [B, H, W] in 0–1 as `Targets` have them, uint8 [B, 28, 28]."""
    size = (MASK_SIZE, MASK_SIZE)
    small = np.zeros((len(masks), *size), np.uint8)
    for row, mask in enumerate(masks):
        mask = cv2.resize(mask.astype(np.float32), size, interpolation=cv2.INTER_AREA)
        small[row] = np.round(255 * mask)
    return small


def drawn_masks(shape: Shape, coefficients: np.ndarray) -> np.ndarray:
    """Return the masks, as `Targets` have them, of shapes [B, n]; empty where these are NaN."""
    coefficients = np.nan_to_num(coefficients)
    masks = np.asarray(shape.masks(coefficients, 4 * MASK_SIZE, 4 * MASK_SIZE))[..., 0]
    return small_masks(masks)
