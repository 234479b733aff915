"""Deep descriptor transforming (Wei et al., IJCAI 2017): what images have in common.

A descriptor is the vector of channels at one position of a feature map. The direction in which the
descriptors of many images differ most tells objects from what surrounds them, so a map of its
values is positive on objects. Neither boxes nor labels are used, and there is no threshold to
choose: the cut is zero.
"""

import cv2
import keras
import numpy as np
import tensorflow as tf

from gc_net.data.splits import DataError


class Transform:
    """Images to maps of the first principal component of their descriptors.

    Args:
        describe: Function of images [B, S, S, 3] to descriptors [B, h, w, C], see `describer`.

    Example:
        transform = Transform(describer(classifier))
        transform.fit(batches)
        masks = largest_parts(transform(images), size=224)
    """

    def __init__(self, describe):
        self.describe = describe
        self.mean = None
        self.direction = None

    def fit(self, batches):
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


def largest_parts(maps, size, cut=0.0):
    """Return the largest connected part above `cut` of each map, bool [B, size, size].

    Args:
        maps: [B, h, w]; they are enlarged to `size` by bilinear interpolation before the cut.
    """
    maps = np.asarray(maps, np.float32)
    masks = np.zeros((len(maps), size, size), bool)
    for mask, values in zip(masks, maps, strict=True):
        large = cv2.resize(values, (size, size), interpolation=cv2.INTER_LINEAR)
        mask[...] = largest_part(large > cut)
    return masks


def largest_part(mask):
    """Return the largest connected part of a mask, bool [H, W]; empty where the mask is."""
    _, parts, statistics, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8))
    if len(statistics) == 1:  # row 0 is what lies outside all parts
        return np.zeros(mask.shape, bool)
    return parts == 1 + statistics[1:, cv2.CC_STAT_AREA].argmax()


def _middle_over_border(descriptors):
    """Return the sum over images of mean descriptor inside minus mean descriptor at the border."""
    height, width = descriptors.shape[1:3]
    y, x = np.mgrid[:height, :width]
    border = (y == 0) | (x == 0) | (y == height - 1) | (x == width - 1)
    if border.all():
        return np.zeros(descriptors.shape[-1])
    return (descriptors[:, ~border].mean(axis=1) - descriptors[:, border].mean(axis=1)).sum(axis=0)
