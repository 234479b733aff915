"""Deep descriptor transforming as a method, see `gc_net.teachers.descriptors`."""

import keras
import tensorflow as tf

from gc_net.classifier import Classifier
from gc_net.evaluation.protocols import Protocol
from gc_net.methods.base import Forward, Method, Score, TrainingBatches, Unsuitable, hits_by_level
from gc_net.teachers.descriptors import Transform, describer, descriptor_model


class DDT(Method):
    """The first principal component of the classifier's descriptors, fitted on training images."""

    name = "ddt"
    title = "DDT"
    cut = 0.0

    def fit(self, classifier: Classifier, training_batches: TrainingBatches) -> None:
        self._transform = Transform(describer(classifier, self.trunk(classifier)))
        try:
            self._transform.fit(training_batches())
        except ValueError as error:
            raise Unsuitable(str(error)) from error

    def trunk(self, classifier: Classifier) -> keras.Model:
        """Return the trunk that describes the images."""
        return classifier.trunk

    def localize(self, forward: Forward) -> tf.Tensor:
        return self._transform.project(forward.descriptors)

    def scores(self, protocol: Protocol, truth_boxes, num_truth, iou, iou_v2) -> list[Score]:
        hits = hits_by_level(protocol, iou_v2[:, 0])
        return [Score(self.name, self.title, False, iou[:, 0], hits)]


class ImageNetDDT(DDT):
    """DDT with the backbone's ImageNet weights: no label of this dataset is used."""

    name = "ddt_imagenet"
    title = "DDT, ImageNet weights"

    def trunk(self, classifier: Classifier) -> keras.Model:
        backbone = classifier.backbone
        trunk = backbone.trunk(classifier.image_size)
        try:
            backbone.load_weights(trunk)
        except (OSError, ValueError, RuntimeError) as error:  # the last for a failed download
            raise Unsuitable(f"its ImageNet weights are not available. {error}") from error
        self._describe_normalized = descriptor_model(backbone, trunk)
        return trunk

    def localize(self, forward: Forward) -> tf.Tensor:
        descriptors = self._describe_normalized(forward.normalized, training=False)
        return self._transform.project(descriptors)
