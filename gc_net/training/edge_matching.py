"""A detector with a head of edges as it is warmed up: it learns given edges and masks."""

from typing import Any

import keras

from gc_net.detector import Detector
from gc_net.heads.edges import with_mask
from gc_net.losses.edges import EdgeLoss


class EdgeMatching(keras.Model):
    """A detector that is trained to find given edges, and the mask of the object.

    Args:
        detector: The `Detector` to train, with a head that `has_mask`.
        on_features: Whether it is shown what `detector.features` gives of images, in place of
            images.
    """

    def __init__(
        self,
        detector: Detector,
        on_features: bool = False,
        name: str = "edge_matching",
        **kwargs: Any,
    ):
        super().__init__(name=name, **kwargs)
        self.detector = detector
        self.on_features = on_features
        self.head = with_mask(detector.head)
        self.built = True

    def compile(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Configure training; the loss is `EdgeLoss`."""
        # XLA's convolutions are slower than oneDNN's on a CPU.
        super().compile(optimizer=optimizer, loss=EdgeLoss(), jit_compile=False)

    def call(self, inputs, training=False):
        if not self.on_features:
            inputs = self.detector.features(inputs, training=training)
        raw, mask = self.head(inputs, training=training)
        return {"edges": raw[:, :4], "mask": mask}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return self.loss(y, y_pred, sample_weight)
