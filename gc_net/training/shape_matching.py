"""A detector as it is warmed up: it learns to place given shapes."""

from typing import Any

import keras

from gc_net.detector import Detector
from gc_net.generators.model import ModelGenerator
from gc_net.losses.masks import OverlapLoss


class ShapeMatching(keras.Model):
    """A detector that is trained to place given shapes.

    Both shapes are drawn by the same generator and compared as masks, so it does not matter that
    one shape has several sets of coefficients, as a rotated one has.

    Args:
        detector: The `Detector` to train.
        on_features: Whether it is shown what `detector.features` gives of images, in place of
            images.
    """

    def __init__(
        self,
        detector: Detector,
        on_features: bool = False,
        name: str = "shape_matching",
        **kwargs: Any,
    ):
        super().__init__(name=name, **kwargs)
        self.detector = detector
        self.on_features = on_features
        self.generator = ModelGenerator(detector.shape, detector.image_size)
        self.generator.trainable = False
        self.built = True

    def compile(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Configure training; the loss is the overlap of the masks."""
        # XLA's convolutions are slower than oneDNN's on a CPU.
        super().compile(optimizer=optimizer, loss=OverlapLoss(), jit_compile=False)

    def call(self, inputs, training=False):
        if self.on_features:
            return self.detector.from_features(inputs, training=training)
        return self.detector(inputs, training=training)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return self.loss(self.generator(y), self.generator(y_pred), sample_weight)
