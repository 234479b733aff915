"""Deep descriptor transforming (Wei et al., IJCAI 2017): what training images have in common."""

import keras
import numpy as np
import tensorflow as tf

from gc_net.evaluation.baselines.base import Baseline, Score, Unsuitable, hits_by_level


class DDT(Baseline):
    """The first principal component of all descriptors, positive where an object is.

    Fitted on training images, without labels: a descriptor is the vector of channels at one
    position of the feature map, and the direction in which descriptors differ most tells objects
    from what surrounds them. Cut at zero; there is no threshold to choose.

    A principal component has no sign of its own. It is turned so that the middle of the images
    has higher values than their border.
    """

    name = "ddt"
    title = "DDT"
    cut = 0.0

    def prepare(self, classifier, training_batches):
        self._describe = self.descriptor_model(classifier)

        @tf.function(reduce_retracing=True)
        def describe(images):
            return self._describe(classifier.normalize(images), training=False)

        self._mean, self._direction = fit(describe, training_batches())

    def descriptor_model(self, classifier):
        """Return a model from normalized images to descriptors [B, h, w, C]."""
        layer = classifier.trunk.get_layer(classifier.backbone.descriptor_layer)
        return keras.Model(classifier.trunk.inputs, layer.output)

    def maps(self, forward):
        return tf.linalg.matvec(
            tf.cast(forward.descriptors, tf.float32) - self._mean, self._direction
        )

    def scores(self, protocol, truth_boxes, num_truth, iou, iou_v2):
        hits = hits_by_level(protocol, iou_v2[:, 0])
        return [Score(self.name, self.title, False, iou[:, 0], hits)]


class ImageNetDDT(DDT):
    """DDT with the backbone as it was trained on ImageNet: no label of this dataset is used."""

    name = "ddt_imagenet"
    title = "DDT, ImageNet weights"

    def descriptor_model(self, classifier):
        backbone = classifier.backbone
        trunk = backbone.trunk(classifier.image_size)
        try:
            backbone.load_weights(trunk)
        except (OSError, ValueError) as error:
            raise Unsuitable(f"its ImageNet weights cannot be had. {error}") from error
        layer = trunk.get_layer(backbone.descriptor_layer)
        return keras.Model(trunk.inputs, layer.output)

    def maps(self, forward):
        descriptors = self._describe(forward.normalized, training=False)
        return super().maps(forward._replace(descriptors=descriptors))


def fit(describe, batches):
    """Return mean and first principal component [C] of the descriptors of all images.

    Args:
        describe: Function of images [B, S, S, 3] to descriptors [B, h, w, C].
        batches: Iterable of image batches.
    """
    count, total, products, inside_out = 0, 0.0, 0.0, 0.0
    for images in batches:
        descriptors = np.asarray(describe(images), np.float64)
        flat = descriptors.reshape(-1, descriptors.shape[-1])  # [B·h·w, C]
        count += len(flat)
        total = total + flat.sum(axis=0)
        products = products + flat.T @ flat
        inside_out = inside_out + _middle_over_border(descriptors)
    if not count:
        raise Unsuitable("there is no training image that can be read.")
    mean = total / count
    covariance = products / count - np.outer(mean, mean)
    _, directions = np.linalg.eigh(covariance)
    direction = directions[:, -1]
    if inside_out @ direction < 0:
        direction = -direction
    return mean.astype(np.float32), direction.astype(np.float32)


def _middle_over_border(descriptors):
    """Return the sum over images of mean descriptor inside minus mean descriptor at the border."""
    height, width = descriptors.shape[1:3]
    y, x = np.mgrid[:height, :width]
    border = (y == 0) | (x == 0) | (y == height - 1) | (x == width - 1)
    if border.all():
        return np.zeros(descriptors.shape[-1])
    return (descriptors[:, ~border].mean(axis=1) - descriptors[:, border].mean(axis=1)).sum(axis=0)
