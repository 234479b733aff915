"""Deep descriptor transforming as a method, see `gc_net.teachers.descriptors`."""

from gc_net.methods.base import Method, Score, Unsuitable, hits_by_level
from gc_net.teachers.descriptors import Transform, describer, descriptor_model


class DDT(Method):
    """The first principal component of the classifier's descriptors, fitted on training images."""

    name = "ddt"
    title = "DDT"
    cut = 0.0

    def fit(self, classifier, training_batches):
        self._transform = Transform(describer(classifier, self.trunk(classifier)))
        try:
            self._transform.fit(training_batches())
        except ValueError as error:
            raise Unsuitable(str(error)) from error

    def trunk(self, classifier):
        """Return the trunk that describes the images."""
        return classifier.trunk

    def localize(self, forward):
        return self._transform.project(forward.descriptors)

    def scores(self, protocol, truth_boxes, num_truth, iou, iou_v2):
        hits = hits_by_level(protocol, iou_v2[:, 0])
        return [Score(self.name, self.title, False, iou[:, 0], hits)]


class ImageNetDDT(DDT):
    """DDT with the backbone as it was trained on ImageNet: no label of this dataset is used."""

    name = "ddt_imagenet"
    title = "DDT, ImageNet weights"

    def trunk(self, classifier):
        backbone = classifier.backbone
        trunk = backbone.trunk(classifier.image_size)
        try:
            backbone.load_weights(trunk)
        except (OSError, ValueError, RuntimeError) as error:  # a download that failed is the last
            raise Unsuitable(f"its ImageNet weights cannot be had. {error}") from error
        self._describe_normalized = descriptor_model(backbone, trunk)
        return trunk

    def localize(self, forward):
        descriptors = self._describe_normalized(forward.normalized, training=False)
        return self._transform.project(descriptors)
