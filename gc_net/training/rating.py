"""Teaches a head of edges to rate its own boxes, without any box that someone has drawn.

Teachers look at training images. They are wrong more often than the detector, but in ways of their
own: the IoU of their box with the detector's is low where either is wrong. Which of them it was
does not show in one image. In many it does: what a teacher misses at random averages out, and what
remains are the kinds of images on which the detector's boxes do not fit. A ridge regression learns
these from what the head sees. It has a closed form, so there are no steps, no rate and no seed.
"""

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from gc_net.detector import Detector
from gc_net.heads import RATED_HEADS
from gc_net.heads.rated_edges import RATING, evidence_model
from gc_net.metrics import box_iou
from gc_net.parametrizations import of_head

if TYPE_CHECKING:
    from gc_net.teachers.base import Lesson, Teacher

# Keeps the weights of the regression small, in squares of standardized evidence.
_STRENGTH = 300.0
# What differs less than this from image to image tells nothing.
_LEAST_SPREAD = 1e-3


def can_be_rated(head: str) -> bool:
    """Return whether a detector with this head can learn to rate its boxes."""
    return head in RATED_HEADS or head in RATED_HEADS.values()


def rated(detector: Detector, teacher: "Teacher", lesson: "Lesson") -> tuple[Detector, float]:
    """Return a detector of the same shapes that rates them, and the mean IoU with the teacher.

    Args:
        detector: A `Detector` with a head of edges.
        teacher: Who shows boxes. It should not be the one that the detector has learned from.
        lesson: Has the images to learn from, and upright boxes for a shape.
    """
    detector = with_rating(detector)
    evidence, placed = _looked_at(detector, lesson)
    boxes = np.asarray(lesson.shape.boxes(teacher.targets(lesson).coefficients))
    known = np.flatnonzero(np.isfinite(boxes[:, 0]) & np.isfinite(placed[:, 0]))
    iou = box_iou(placed[known], boxes[known])
    # An image and its mirror image have the same box.
    kernel, bias = ridge(evidence[known].reshape(-1, evidence.shape[-1]), np.repeat(iou, 2))
    detector.head.get_layer(RATING).set_weights([kernel[:, None], bias[None]])
    return detector, float(iou.mean())


def with_rating(detector: Detector) -> Detector:
    """Return a detector with the same weights whose head can rate, but has learned nothing yet."""
    head = RATED_HEADS.get(detector.head_name, detector.head_name)
    config = {**detector.get_config(), "head": head, "parametrization": of_head(head)}
    rated = Detector.from_config(config)
    rated.trunk.set_weights(detector.trunk.get_weights())
    for layer in (layer for layer in detector.head.layers if layer.weights):
        rated.head.get_layer(layer.name).set_weights(layer.get_weights())
    return rated


def ridge(values: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return kernel [F] and bias [] of the ridge regression of values [N, F] to what is wanted."""
    values, wanted = np.asarray(values, np.float64), np.asarray(wanted, np.float64)
    spread = values.std(axis=0)
    scale = np.where(spread < _LEAST_SPREAD, 0.0, 1 / np.maximum(spread, _LEAST_SPREAD))
    mean, middle = values.mean(axis=0), wanted.mean()
    standard = (values - mean) * scale
    products = standard.T @ standard + _STRENGTH * np.eye(len(scale))
    kernel = np.linalg.solve(products, standard.T @ (wanted - middle)) * scale
    return kernel.astype(np.float32), np.float32(middle - mean @ kernel)


def _looked_at(detector, lesson):
    """Return the evidence [N, 2, F] of images and mirror images, and the mean boxes [N, 4]."""
    size, head = lesson.data.resize_size, evidence_model(detector.head)

    @tf.function(reduce_retracing=True)
    def look(images):
        seen = []

        def forward(normalized):
            raw, evidence = head(detector.trunk(normalized, training=False), training=False)
            seen.extend(tf.split(evidence, 2))
            return raw

        boxes = detector.place(images, mirror=True, forward=forward).boxes
        return tf.stack(seen, axis=1), boxes

    count = len(lesson.data.split)
    evidence = np.zeros((count, 2, head.output[1].shape[-1]), np.float32)
    boxes = np.full((count, 4), np.nan, np.float32)
    for batch in lesson.batches(size, "Asking the detector"):
        index = batch["index"].numpy()
        evidence[index], boxes[index] = (each.numpy() for each in look(batch["image"]))
    return evidence, boxes
