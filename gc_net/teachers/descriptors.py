"""Deep descriptor transforming (Wei et al., IJCAI 2017): what images have in common.

A descriptor is the vector of channels at one position of a feature map. The direction in which the
descriptors of many images differ most tells objects from what surrounds them, so a map of its
values is positive on objects. Neither boxes nor labels are used, and there is no threshold to
choose: the cut is zero.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import cv2
import keras
import numpy as np
import tensorflow as tf

from gc_net.data.splits import DataError
from gc_net.settings import setting
from gc_net.stages.run_folder import RunError
from gc_net.teachers.base import Lesson, Maps, MapTeacher

_OFFSET_IMAGES = 256


@dataclasses.dataclass(frozen=True)
class Descriptors(MapTeacher):
    """The largest patch that lies above zero.

    Attributes:
        weights: Weights that describe the images: the backbone's, which know no class of this
            dataset, or the trained classifier's.
        image_size: Side of the square images that are described.
        fit_images: Most images that the transform is fitted on.
        centered: Move maps by what they are off on average. Strided layers pad on one side only,
            so that maps of images and of flipped images do not quite fall on each other.
    """

    name: ClassVar[str] = "descriptors"
    outlines: ClassVar[bool] = False
    weights: str = setting("backbone", ("backbone", "classifier"))
    image_size: int = setting(224, low=32)
    fit_images: int = setting(1000, low=1)
    centered: bool = False

    def check(self, lesson: Lesson) -> None:
        if self.weights == "backbone" and lesson.weights == "none":
            raise RunError(
                "A backbone without weights describes nothing, and the warm-up needs descriptors. "
                "Use --warmup_teacher=descriptors:weights=classifier, or --warmup_epochs=0."
            )
        try:
            self.trunk(lesson, self.image_size)
        except RuntimeError as error:  # a download that failed
            raise RunError(str(error)) from error

    def _offset(self, lesson, maps):
        """Return how far, right and down, maps must be moved, relative to the image."""
        count = len(lesson.data.split)
        chosen = np.linspace(0, count - 1, min(_OFFSET_IMAGES, count)).astype(int)
        offsets = []
        for batch in lesson.batches(self.image_size, "Centering descriptors", chosen):
            images = batch["image"]
            x, y = _middles(maps(images))
            mirrored, _ = _middles(maps(images[:, :, ::-1])[:, :, ::-1])
            _, turned = _middles(maps(images[:, ::-1])[:, ::-1])
            offsets.append(np.stack([mirrored - x, turned - y], axis=-1) / 2)
        return np.median(np.concatenate(offsets), axis=0)

    def fit_maps(self, lesson: Lesson) -> Maps:
        count = len(lesson.data.split)
        transform = Transform(describer(lesson.classifier, self.trunk(lesson, self.image_size)))
        chosen = np.linspace(0, count - 1, min(self.fit_images, count)).astype(int)
        fitting = lesson.batches(self.image_size, "Fitting descriptors", chosen)
        transform.fit(batch["image"] for batch in fitting)
        if not self.centered:
            return Maps(self.image_size, transform)
        offset = self._offset(lesson, transform)
        return Maps(self.image_size, lambda images: moved(transform(images), *offset))

    def trunk(self, lesson: Lesson, image_size: int) -> keras.Model:
        if self.weights == "backbone":
            return super().trunk(lesson, image_size)
        return lesson.classifier_trunk(image_size)


class Transform:
    """Images to maps of the first principal component of their descriptors.

    Args:
        describe: Function of images [B, S, S, 3] to descriptors [B, h, w, C], see `describer`.

    Example:
        transform = Transform(describer(classifier))
        transform.fit(batches)
        masks = heat_maps.largest_parts(transform(images), size=224)
    """

    def __init__(self, describe: Callable[[Any], Any]):
        self.describe = describe
        self.mean = None
        self.direction = None

    def fit(self, batches: Iterable[Any]) -> None:
        """Find mean and direction from an iterable of image batches.

        A principal component has no sign of its own. It is turned so that the middle of the images
        has higher values than their border.
        """
        count, total, products, inside_out = 0, 0.0, 0.0, 0.0
        for images in batches:
            descriptors = np.asarray(self.describe(images), np.float64)
            flat = descriptors.reshape(-1, descriptors.shape[-1])  # [B·h·w, C]
            count += len(flat)
            total = total + flat.sum(axis=0)
            products = products + flat.T @ flat
            inside_out = inside_out + _middle_over_border(descriptors)
        if not count:
            raise DataError("there is no training image that can be read.")
        mean = total / count
        covariance = products / count - np.outer(mean, mean)
        _, directions = np.linalg.eigh(covariance)
        direction = directions[:, -1]
        if inside_out @ direction < 0:
            direction = -direction
        self.mean, self.direction = mean.astype(np.float32), direction.astype(np.float32)

    def project(self, descriptors):
        """Return maps [B, h, w] for descriptors [B, h, w, C]; may run inside a graph."""
        return tf.linalg.matvec(tf.cast(descriptors, tf.float32) - self.mean, self.direction)

    def __call__(self, images):
        return self.project(self.describe(images))


def descriptor_model(backbone, trunk):
    """Return a model from normalized images to descriptors [B, h, w, C]."""
    return keras.Model(trunk.inputs, trunk.get_layer(backbone.descriptor_layer).output)


def describer(network, trunk=None):
    """Return a function of 0–255 images to descriptors.

    Args:
        network: A `Network`, whose backbone says which layer describes best.
        trunk: A trunk of that backbone with other weights; the network's own if None.
    """
    model = descriptor_model(network.backbone, trunk or network.trunk)

    @tf.function(reduce_retracing=True)
    def describe(images):
        return model(network.normalize(images), training=False)

    return describe


def moved(maps: Any, right: float, down: float) -> np.ndarray:
    """Return maps [B, h, w] moved by parts of their width and height; borders are repeated."""
    maps = np.asarray(maps, np.float32)
    height, width = maps.shape[1:]
    move = np.float64([[1, 0, right * width], [0, 1, down * height]])
    return np.stack(
        [
            cv2.warpAffine(each, move, (width, height), borderMode=cv2.BORDER_REPLICATE)
            for each in maps
        ]
    )


def _middles(maps):
    """Return the relative x and y [B] of the middle of what lies above zero in maps [B, h, w]."""
    weights = np.maximum(maps, 0.0) + 1e-9
    weights /= weights.sum(axis=(1, 2), keepdims=True)
    y, x = ((np.arange(side) + 0.5) / side for side in maps.shape[1:])
    return weights.sum(axis=1) @ x, weights.sum(axis=2) @ y


def _middle_over_border(descriptors):
    """Return the sum over images of mean descriptor inside minus mean descriptor at the border."""
    height, width = descriptors.shape[1:3]
    y, x = np.mgrid[:height, :width]
    border = (y == 0) | (x == 0) | (y == height - 1) | (x == width - 1)
    if border.all():
        return np.zeros(descriptors.shape[-1])
    return (descriptors[:, ~border].mean(axis=1) - descriptors[:, border].mean(axis=1)).sum(axis=0)
