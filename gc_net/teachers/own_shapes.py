"""A detector's own shapes, as one more voice on the images that it has learned from.

What it has learned from a teacher's mistakes, which differ from image to image, is what they share.
So its shapes are better than those that it was shown, and the mean of both is a better target.
"""

import numpy as np
import tensorflow as tf

from gc_net import heads
from gc_net.data import transforms
from gc_net.detector import Detector
from gc_net.progress import track
from gc_net.shapes.base import Shape
from gc_net.teachers.base import Lesson, Targets
from gc_net.teachers.committee import agreed
from gc_net.training.features import Features

_BATCH_SIZE = 64


def own_targets(detector: Detector, lesson: Lesson, features: Features | None = None) -> Targets:
    """Return the mean of a detector's shapes of an image and of its mirror image.

    A weight is how far both overlap. There are no masks.

    Args:
        detector: The detector.
        lesson: Has the training images, and the shape of the targets.
        features: Of those images that are to have a target; computed anew, of all images, if None.
    """
    if heads.get(detector.head_name).has_mask:
        detector = detector.with_shape(lesson.shape)
    targets = Targets.none(len(lesson.data.split), lesson.shape)
    data = lesson.data
    if features is None:

        @tf.function(reduce_retracing=True)
        def place(images):
            return detector.place(images, mirror=True)

        for batch in lesson.batches(data.resize_size, "Asking the detector"):
            placed, index = place(batch["image"]), batch["index"].numpy()
            targets.coefficients[index] = placed.coefficients.numpy()
            targets.weights[index] = placed.agreement.numpy()
        return targets

    @tf.function(reduce_retracing=True)
    def place_features(maps, mirrored):
        raw = [detector.head(_as_floats(each), training=False) for each in (maps, mirrored)]
        mean, agreement = detector.of_both(*raw)
        return detector.decode(mean), agreement

    window = transforms.center_window(data.resize_size, data.image_size)
    count = len(features.indices)
    starts = range(0, count, _BATCH_SIZE)
    for start in track(starts, len(starts), "Asking the detector"):
        views = np.arange(start, min(start + _BATCH_SIZE, count))
        shapes, agreement = place_features(features.take(views), features.take(views + count))
        whole = Shape.out_of_window(shapes, window, data.resize_size, data.image_size)
        targets.coefficients[features.indices[views]] = np.asarray(whole)
        targets.weights[features.indices[views]] = np.asarray(agreement)
    return targets


def joined_by_own(shape: Shape, targets: Targets, own: Targets) -> Targets:
    """Return the mean of a teacher's targets and a detector's, where the teacher has one."""
    joined = agreed(shape, [targets, own], np.ones(2))
    missing = ~np.isfinite(targets.coefficients[:, 0])
    joined.coefficients[missing] = np.nan
    return joined._replace(masks=targets.masks)


def _as_floats(maps):
    maps = [tf.cast(each, tf.float32) for each in maps]
    return maps if len(maps) > 1 else maps[0]
