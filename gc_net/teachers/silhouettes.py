"""Silhouettes: where the object of a coarse map ends, by the colours of its own image.

Deep descriptors know where an object is, but their maps are a few cells wide, so that a bird
becomes a round patch with a margin all around. The image itself has the outline: within and around
the patch, GrabCut (Rother, Kolmogorov and Blake, 2004) fits one mixture of colours to the object
and one to what surrounds it, and cuts between the two. Neither boxes nor labels are used.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np

from gc_net.teachers.descriptors import largest_part, largest_parts

SIZE = 128  # of the images that are cut; larger ones keep more of a tail, and take longer
_MARGIN = SIZE // 16  # how far beyond its patch an object may reach
# Parts of the patch, strongest first, that are the object's for sure and probably. Without the
# former, GrabCut often ends with the one part of an object whose colour is rarest.
_SURE, _PROBABLE = 0.2, 0.5
_ITERATIONS = 2


def silhouettes(images, maps):
    """Return the silhouette of each image's object, bool [B, SIZE, SIZE].

    It is empty where the map has nothing above zero.

    Args:
        images: [B, S, S, 3] in 0–255.
        maps: [B, h, w], positive on objects, see `gc_net.teachers.descriptors`.
    """
    images = np.asarray(images).astype(np.uint8)
    maps = np.asarray(maps, np.float32)
    patches = largest_parts(maps, SIZE)
    # OpenCV holds no lock while it cuts.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        cut = list(pool.map(_silhouette, images, maps, patches))
    return np.array(cut, bool).reshape(-1, SIZE, SIZE)


def _silhouette(image, values, patch):
    if not patch.any():
        return patch
    values = cv2.resize(values, (SIZE, SIZE), interpolation=cv2.INTER_LINEAR)
    strong, strongest = np.quantile(values[patch], [1 - _PROBABLE, 1 - _SURE])
    probable = patch & (values >= strong)
    if probable.all():
        return patch  # a map of one value: there is nothing to tell the object from
    reach = np.ones((2 * _MARGIN + 1,) * 2, np.uint8)
    kinds = np.full(patch.shape, cv2.GC_BGD, np.uint8)
    kinds[cv2.dilate(patch.astype(np.uint8), reach) > 0] = cv2.GC_PR_BGD
    kinds[probable] = cv2.GC_PR_FGD
    kinds[patch & (values >= strongest)] = cv2.GC_FGD
    image = cv2.resize(image, (SIZE, SIZE), interpolation=cv2.INTER_AREA)
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
