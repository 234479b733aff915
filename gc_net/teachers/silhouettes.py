"""Silhouettes: where the object of a coarse map ends, by the colours of its own image.

Deep descriptors know where an object is, but their maps are a few cells wide, so that a bird
becomes a round patch with a margin all around. The image itself has the outline: within and around
the patch, GrabCut (Rother, Kolmogorov and Blake, 2004) fits one mixture of colours to the object
and one to what surrounds it, and cuts between the two. Neither boxes nor labels are used.
"""

import dataclasses
import os
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import cv2
import keras
import numpy as np

from gc_net.heat_maps import enlarged, largest_part, largest_parts
from gc_net.settings import setting
from gc_net.stages.run_folder import RunError
from gc_net.teachers import get
from gc_net.teachers.base import Lesson, Maps, MapTeacher

SIZE = 128
_MARGIN = 1 / 16  # how far beyond its patch an object may reach, as a part of the image's side
# Parts of the patch, strongest first, that are the object's for sure and probably. Without the
# former, GrabCut often ends with the one part of an object whose colour is rarest.
_SURE, _PROBABLE = 0.2, 0.5
_ITERATIONS = 2


@dataclasses.dataclass(frozen=True)
class Silhouettes(MapTeacher):
    """What another teacher's maps show, cut out along the colours of the image.

    Attributes:
        source: The teacher whose maps are cut: descriptors, or one that learned from silhouettes,
            whose maps are finer.
        size: Side of the images that are cut; larger ones keep more of a tail, and take longer.
    """

    name: ClassVar[str] = "silhouettes"
    source: str = "descriptors"
    size: int = setting(SIZE, low=32)

    def check(self, lesson: Lesson) -> None:
        map_source(self.source).check(lesson)

    def trunk(self, lesson: Lesson, image_size: int) -> keras.Model:
        return map_source(self.source).trunk(lesson, image_size)

    def fit_maps(self, lesson: Lesson) -> Maps:
        return lesson.maps(map_source(self.source))

    def masks(self, images, maps: np.ndarray, size: int) -> np.ndarray:
        return silhouettes(images, maps, self.size)


def map_source(name: str) -> MapTeacher:
    """Return the teacher called `name`, which must have maps."""
    source = get(name)
    if not isinstance(source, MapTeacher):
        raise RunError(
            f"A `source` is a teacher that has maps, and {name!r} has none. Give one that has, "
            "e.g. silhouettes:source=descriptors."
        )
    return source


def silhouettes(images, maps, size: int = SIZE) -> np.ndarray:
    """Return the silhouette of each image's object, bool [B, size, size].

    It is empty where the map has nothing above zero.

    Args:
        images: [B, S, S, 3] in 0–255.
        maps: [B, h, w], positive on objects, see `gc_net.teachers.descriptors`.
        size: Side of the images that are cut.
    """
    images = np.asarray(images).astype(np.uint8)
    maps = np.asarray(maps, np.float32)
    # OpenCV holds no lock while it cuts.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        cut = list(pool.map(_silhouette, images, maps, largest_parts(maps, size)))
    return np.array(cut, bool).reshape(-1, size, size)


def _silhouette(image, values, patch):
    if not patch.any():
        return patch
    size = len(patch)
    values = enlarged(values, size)
    strong, strongest = np.quantile(values[patch], [1 - _PROBABLE, 1 - _SURE])
    probable = patch & (values >= strong)
    if probable.all():
        return patch  # a map of one value: there is nothing to tell the object from
    reach = np.ones((2 * int(size * _MARGIN) + 1,) * 2, np.uint8)
    kinds = np.full(patch.shape, cv2.GC_BGD, np.uint8)
    kinds[cv2.dilate(patch.astype(np.uint8), reach) > 0] = cv2.GC_PR_BGD
    kinds[probable] = cv2.GC_PR_FGD
    kinds[patch & (values >= strongest)] = cv2.GC_FGD
    image = cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA)
    cv2.setRNGSeed(0)  # of this thread: the mixtures start from random clusters
    cv2.grabCut(
        image,
        kinds,
        None,
        np.zeros((1, 65)),
        np.zeros((1, 65)),
        _ITERATIONS,
        cv2.GC_INIT_WITH_MASK,
    )
    return largest_part((kinds == cv2.GC_FGD) | (kinds == cv2.GC_PR_FGD))
