"""A trained model as a teacher: its shapes are better than what it learned from.

It looks at each image and at its mirror image. The mean of both shapes is better than either, and
how far they overlap tells how far to trust it.
"""

import dataclasses
from typing import ClassVar

import numpy as np
import tensorflow as tf

from gc_net.data import transforms
from gc_net.localizer import Localizer
from gc_net.metrics import box_iou
from gc_net.shapes.base import Shape, pixel_grid
from gc_net.stages.run_folder import RunError
from gc_net.teachers.base import Lesson, Maps, MapTeacher, Placer, Targets, drawn_masks

_MAP_SIZE = 56


@dataclasses.dataclass(frozen=True)
class Model(MapTeacher):
    """The shapes of a trained model.

    Attributes:
        folder: Folder of a model with a detector.
    """

    name: ClassVar[str] = "model"
    folder: str = ""

    def check(self, lesson: Lesson) -> None:
        self._load()

    def placer(self, lesson: Lesson) -> Placer:
        model, image_size, place = self._load()

        def targets(images):
            coefficients, agreement = place(images)
            masks = drawn_masks(model.shape, coefficients) if lesson.with_masks else None
            coefficients = translated(coefficients, model.shape, lesson.shape)
            if self.upright:
                coefficients = translated(coefficients, lesson.shape, lesson.shape, upright=True)
            return Targets(coefficients, agreement, masks)

        return Placer(image_size, targets)

    def fit_maps(self, lesson: Lesson) -> Maps:
        model, image_size, place = self._load()
        grid = pixel_grid(_MAP_SIZE, _MAP_SIZE)
        return Maps(image_size, lambda images: -model.shape.level_set(place(images)[0], *grid))

    def _load(self):
        """Return the model, its size of whole images, and the function of these to shapes."""
        try:
            model = Localizer.load(self.folder)
        except ValueError as error:
            raise RunError(
                "--warmup_teacher must be a known teacher (see --help) or the folder of a trained "
                f"model. {error}"
            ) from error
        image_size, resize_size = model.image_size, model.resize_size
        window = transforms.center_window(resize_size, image_size)

        @tf.function(reduce_retracing=True)
        def in_window(images):
            return model.detector(tf.cast(images, tf.float32))

        def place(images):
            images = images[:, window.top :, window.left :][:, :image_size, :image_size]
            seen = in_window(images).numpy()
            mirrored = Shape.mirrored(in_window(images[:, :, ::-1]).numpy())
            agreement = box_iou(model.shape.boxes(seen), model.shape.boxes(mirrored))
            mean = model.shape.mean(np.stack([seen, mirrored]))
            whole = np.asarray(Shape.out_of_window(mean, window, resize_size, image_size))
            return whole, np.asarray(agreement, np.float32)

        return model, resize_size, place


def translated(
    coefficients: np.ndarray, shape: Shape, other: Shape, upright: bool = False
) -> np.ndarray:
    """Return shapes [N, n] as ones of another kind.

    An upright one takes the box; one that rotates keeps centre, angle and spread.
    """
    if upright or not (shape.rotates and other.rotates):
        left, top, right, bottom = np.asarray(shape.boxes(coefficients)).T
        box = [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top, 0 * left]
        return np.stack(box[: other.num_coefficients], axis=-1)
    coefficients = np.array(coefficients)
    coefficients[:, 2:4] *= np.sqrt(shape.figure_variance / other.figure_variance)
    return coefficients
