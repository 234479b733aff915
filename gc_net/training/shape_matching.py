"""The warm-up of a detector: it learns to place given shapes."""

from gc_net.generators.model import ModelGenerator
from gc_net.losses.masks import OverlapLoss
from gc_net.training.matching import Matching


class ShapeMatching(Matching):
    """A detector that is trained to place given shapes.

    The same generator draws both shapes, and they are compared as masks. So it does not matter that
    a rotated shape has several sets of coefficients.

    Args:
        detector: The `Detector` to train.
        on_features: See `Matching`.
    """

    usual_name = "shape_matching"

    def add_parts(self) -> None:
        self.generator = ModelGenerator(self.detector.shape, self.detector.image_size)
        self.generator.trainable = False

    def make_loss(self) -> OverlapLoss:
        return OverlapLoss()

    def call(self, inputs, training=False):
        if self.on_features:
            return self.detector.from_features(inputs, training=training)
        return self.detector(inputs, training=training)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return self.loss(self.generator(y), self.generator(y_pred), sample_weight)
