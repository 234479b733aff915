"""Class activation maps as a teacher: not what stands out, but what the classifier knows.

Where the classes are many and the images of each few, the direction in which descriptors differ
most tells things from their surroundings, whatever they are. The classifier tells a dog from the
sofa it lies on. Zhou et al., CVPR 2016.
"""

import dataclasses
from typing import ClassVar

import numpy as np
import tensorflow as tf

from gc_net.classifier import outputs_layer
from gc_net.settings import setting
from gc_net.stages.run_folder import RunError
from gc_net.teachers.base import Lesson, Maps, MapTeacher


@dataclasses.dataclass(frozen=True)
class ClassMaps(MapTeacher):
    """What speaks for the classes that the classifier sees, each by its probability.

    Attributes:
        image_size: Side of the square images. Maps have as many cells as the trunk leaves of it, so
            larger images than the classifier was trained with give finer ones.
        level: Where maps are cut, between their lowest value, 0, and their highest, 1.
    """

    name: ClassVar[str] = "class_maps"
    outlines: ClassVar[bool] = False
    image_size: int = setting(320, low=32)
    level: float = setting(0.2, low=0.0, high=1.0)

    def check(self, lesson: Lesson) -> None:
        if lesson.classifier is None:
            return
        try:
            outputs_layer(lesson.classifier)
        except ValueError as error:
            raise RunError(f"The teacher class_maps cannot teach: {error}") from error

    def fit_maps(self, lesson: Lesson) -> Maps:
        self.check(lesson)
        classifier = lesson.classifier
        trunk = lesson.classifier_trunk(self.image_size)
        outputs = outputs_layer(classifier)
        kernel = tf.cast(outputs.kernel, tf.float32)  # [C, num_classes]
        bias = tf.cast(outputs.bias, tf.float32)

        @tf.function(reduce_retracing=True)
        def evidence(images):
            features = tf.cast(trunk(classifier.normalize(images), training=False), tf.float32)
            probabilities = tf.nn.softmax(tf.reduce_mean(features, axis=(1, 2)) @ kernel + bias)
            directions = probabilities @ tf.transpose(kernel)  # [B, C]
            return tf.einsum("bhwc,bc->bhw", features, directions)

        return Maps(self.image_size, lambda images: self._cut(evidence(images).numpy()))

    def _cut(self, maps):
        low = maps.min(axis=(1, 2), keepdims=True)
        spread = np.maximum(maps.max(axis=(1, 2), keepdims=True) - low, 1e-9)
        return (maps - low) / spread - self.level
