"""The warm-up of a detector with a head of edges: it learns given edges and masks."""

from gc_net.heads.edges import with_mask
from gc_net.losses.edges import EdgeLoss
from gc_net.training.matching import Matching


class EdgeMatching(Matching):
    """A detector that is trained to find given edges, and the mask of the object.

    Args:
        detector: The `Detector` to train, with a head that `has_mask`.
        on_features: See `Matching`.
    """

    usual_name = "edge_matching"

    def add_parts(self) -> None:
        self.head = with_mask(self.detector.head)

    def make_loss(self) -> EdgeLoss:
        return EdgeLoss()

    def call(self, inputs, training=False):
        if not self.on_features:
            inputs = self.detector.features(inputs, training=training)
        raw, mask = self.head(inputs, training=training)
        return {"edges": raw[:, :4], "mask": mask}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return self.loss(y, y_pred, sample_weight)
