"""A parametrization by edges with a rating, for the head `gc_net.heads.rated_edges`.

Raw outputs are those of `gc_net.parametrizations.edges`, and the IoU that the box can be expected
to have with the object's, as the head has learned it from teachers.
"""

from keras import ops

from gc_net.parametrizations.edges import Edges


class RatedEdges(Edges):
    """Edges, correlation, deviations, and a rating of the box."""

    name = "rated_edges"
    head = "rated_edges"

    def num_outputs(self, shape):
        return super().num_outputs(shape) + 1

    def decode(self, raw, shape):
        return super().decode(raw[..., :-1], shape)

    def mirrored(self, raw):
        # A box is as good as its mirror image.
        return _rated(super().mirrored(raw[..., :-1]), ops.cast(raw, "float32")[..., -1:])

    def mean(self, one, other):
        ratings = (ops.cast(each, "float32")[..., -1:] for each in (one, other))
        return _rated(super().mean(one[..., :-1], other[..., :-1]), sum(ratings) / 2)

    def expected_iou(self, raw):
        """Return the geometric mean [...] of the rating and of what the profiles let one expect.

        They know of different mistakes: the profiles of those that the head is torn about, and the
        rating of those that it makes without a doubt. A linear layer may leave the range of an IoU.
        """
        rating = ops.clip(ops.cast(raw, "float32")[..., -1], 0.0, 1.0)
        return ops.sqrt(rating * super().expected_iou(raw[..., :-1]))

    def encode(self, coefficients, shape, margin=1e-4):
        edges = super().encode(coefficients, shape, margin)
        return _rated(edges, ops.ones_like(edges[..., :1]))


def _rated(edges, rating):
    return ops.concatenate([edges, rating], axis=-1)
