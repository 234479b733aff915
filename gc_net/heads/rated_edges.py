"""A head of edges that says how well its own box fits, as it has learned from teachers.

Deviations of profiles tell where the head cannot decide. They do not tell where it is wrong and
certain of it: a wing that all profiles leave out, a branch that belongs to the bird. What such
images look like can be learned without boxes. Teachers that err in ways of their own agree less
with the head's box there, and one linear layer learns this from what the head sees inside and
outside of its mask. `gc_net.training.rating` fits that layer; all others, and so the boxes, stay.
"""

import keras
from keras import layers, ops

from gc_net.heads.edges import MASK, NUM_EDGES, Edges

EVIDENCE, RATING = "rating_evidence", "rating"
# A mask may be empty, and a box have no extent.
_SMALLEST = 1e-3


class RatedEdges(Edges):
    """The raw outputs of `gc_net.parametrizations.rated_edges`: a rating comes last."""

    parametrization = "rated_edges"

    def build(self, backbone, num_outputs, feature_shapes):
        head = super().build(backbone, num_outputs - 1, feature_shapes)
        mask = head.get_layer(MASK)
        evidence = Evidence(dtype="float32", name=EVIDENCE)([mask.input, mask.output, head.output])
        # Until it has been fitted, the deviations alone count.
        start = {"kernel_initializer": "zeros", "bias_initializer": "ones"}
        rating = layers.Dense(1, dtype="float32", name=RATING, **start)(evidence)
        outputs = layers.Concatenate(dtype="float32", name="rated_outputs")([head.output, rating])
        return keras.Model(head.inputs, outputs, name="head")


class Evidence(layers.Layer):
    """What a rating looks at, [B, 3C + 10], from features [B, S, S, C], mask and outputs of edges.

    These are the mean features inside and outside of the mask, the strongest of the image, the
    deviations of the edges, the same relative to the extents of the box, and these extents.
    """

    def call(self, inputs):
        features, mask, outputs = (ops.cast(each, "float32") for each in inputs)
        inside = ops.sigmoid(mask)
        means = [_weighted_mean(features, shares) for shares in (inside, 1.0 - inside)]
        strongest = ops.max(features, axis=(1, 2))
        extents = ops.abs(outputs[:, 2:NUM_EDGES] - outputs[:, :2])
        off = outputs[:, -NUM_EDGES:]
        both = ops.maximum(ops.concatenate([extents, extents], axis=-1), _SMALLEST)
        return ops.concatenate([*means, strongest, off, _ratio(off, both), extents], axis=-1)


def evidence_model(head: keras.Model) -> keras.Model:
    """Return a rated head as a model with two outputs: raw outputs, and the rating's evidence."""
    return keras.Model(head.inputs, [head.output, head.get_layer(EVIDENCE).output])


def _weighted_mean(features, shares):
    """Return the means [B, C] of features [B, S, S, C] with shares [B, S, S, 1]."""
    total = ops.mean(features * shares, axis=(1, 2))
    return _ratio(total, ops.mean(shares, axis=(1, 2)) + _SMALLEST)


def _ratio(one, other):
    # By logarithms, as in `Edges.expected_iou`: TFLite's division of 8-bit integers may fail.
    return one * ops.exp(-ops.log(other))
