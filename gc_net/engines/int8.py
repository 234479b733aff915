"""Trunks in integers of eight bits, run by XNNPACK: twice as fast again, and not quite the same.

Each value of a map is rounded to one of 256 levels, whose range comes from images that are run
through the network before. Heads stay as they are: they are small, and it is they who say where an
edge lies to a fraction of a cell, and who divide, which TFLite's integers cannot do for all values.
"""

import hashlib

import numpy as np
import tensorflow as tf

from gc_net.backbones.network import Network
from gc_net.data.transforms import squash
from gc_net.engines.base import EngineError, Forward
from gc_net.engines.sharing import Pair
from gc_net.engines.xnnpack import XNNPack, converted


class Int8(XNNPack):
    """Runs trunks as TFLite models of integers, and heads in TensorFlow.

    Args:
        images: Some fifty typical images, uint8 [N, R, R, 3] RGB: those of the training, for
            example. No labels are needed.

    Example:
        localizer.predict(files, engine=Int8(read_squashed("my_photos", 50, 256)))
    """

    name = "int8"
    exact = False

    def __init__(self, images: np.ndarray | None = None):
        super().__init__()
        if images is None or not len(images):
            raise EngineError(
                "The engine `int8` needs images that say which values are usual: give it some "
                "fifty of the training images (--calibration_images=my_photos)."
            )
        self._images = np.asarray(images)

    def digest(self, network: Network | Pair) -> bytes:
        images = hashlib.blake2b(np.ascontiguousarray(self._images), digest_size=16)
        return super().digest(network) + images.digest()

    def copy(self, network: Network | Pair) -> Forward:
        self.check(network)

        def calibrate(converter):
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: (
                [network.normalize(squash(image, network.image_size)[None].astype(np.float32))]
                for image in self._images
            )

        trunk = converted(network, network.trunk, calibrate)
        head = network.head
        return lambda normalized: head(trunk(normalized), training=False)
