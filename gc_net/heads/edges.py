"""A head that can be exact: it finds the edges of an object in the rows and columns of fine maps.

A vector of numbers from a map of 5 × 5 or 7 × 7 cells shrinks sizes to their mean, and its centres
are off by a tenth of the image. Here a small feature pyramid (Lin et al., 2017) brings what the
deepest layers know to the finest map. The map is pooled over rows and over columns. Along each of
both profiles, an edge is the expected position under a softmax, to a fraction of a cell. Where the
head cannot decide, the softmax spreads. How far it spreads is an output too: it tells how sure the
box is.

A second output of the same map is a mask of the object. For shapes that rotate, the correlation of
x and y under it tells the turn: it has no seam, and is zero for a round object.
"""

import keras
import numpy as np
from keras import layers, ops

from gc_net.backbones.layers import BatchNormalization
from gc_net.heads.base import Head

CHANNELS = 64
# All layers with weights have this prefix: they are new, and may be trained at a rate of their own.
PREFIX = "edges_"
MASK = f"{PREFIX}mask"
NUM_EDGES = 4
# The edges, and how far each deviates.
_NUM_OUTPUTS = 2 * NUM_EDGES
# Tilts the softmax of untrained, equal logits, so that its mean lies at a quarter of the way.
_TILT = 3.6


class Edges(Head):
    """The raw outputs of `gc_net.parametrizations.edges`."""

    parametrization = "edges"
    has_mask = True

    def layers(self, backbone):
        return backbone.feature_layers

    def build(self, backbone, num_outputs, feature_shapes):
        if num_outputs not in (_NUM_OUTPUTS, _NUM_OUTPUTS + 1):
            raise ValueError(
                "The head 'edges' has four edges, how far each deviates, and a turn where the "
                f"shape rotates: it fits detectors alone. Received: num_outputs={num_outputs}"
            )
        inputs = [
            keras.Input(shape, name=f"features{number}")
            for number, shape in enumerate(feature_shapes)
        ]
        features = _pyramid(inputs)  # [B, S, S, C]
        mask = layers.Conv2D(1, 1, name=MASK)(features)
        features = layers.Concatenate()([features, mask])
        (left, right), deviations_x = _edges(features, "x")
        (top, bottom), deviations_y = _edges(features, "y")
        found = [left, top, right, bottom]
        if num_outputs > _NUM_OUTPUTS:
            found.append(Correlation(dtype="float32")(mask))
        found += [each for pair in zip(deviations_x, deviations_y, strict=True) for each in pair]
        outputs = layers.Concatenate(dtype="float32", name="outputs")(found)
        return keras.Model(inputs, outputs, name="head")


def with_mask(head: keras.Model) -> keras.Model:
    """Return a head as a model with two outputs: raw outputs, and logits [B, S, S] of the mask."""
    mask = head.get_layer(MASK).output
    mask = layers.Reshape(mask.shape[1:3], dtype="float32", name="mask")(mask)
    return keras.Model(head.inputs, [head.output, mask], name="head_with_mask")


def mask_size(head: keras.Model) -> int:
    """Return the side of the mask's map."""
    return head.get_layer(MASK).output.shape[1]


class SoftArgmax(layers.Layer):
    """Logits of two edges over positions from 0 to 1 to where the edges lie.

    Takes [B, P, 2] and returns two arrays [B, 2]: the mean positions under the softmax of the
    logits, and the mean absolute deviations from these, of 0 where a softmax has a single peak.

    Untrained, one lies at a quarter and the other at three quarters: from an object of no extent
    the losses would find no way out.
    """

    def call(self, logits):
        positions = np.linspace(0.0, 1.0, logits.shape[1], dtype="float32")[:, None]  # [P, 1]
        tilt = _TILT * np.array([-1.0, 1.0], "float32") * positions
        shares = ops.softmax(ops.cast(logits, "float32") + tilt, axis=1)
        means = ops.sum(shares * positions, axis=1, keepdims=True)
        deviations = ops.sum(shares * ops.abs(positions - means), axis=1)
        return means[:, 0], deviations


class Correlation(layers.Layer):
    """Logits [B, H, W, 1] of a mask to the correlation of x and y under it, [B, 1]."""

    def call(self, logits):
        mask = ops.sigmoid(ops.cast(logits, "float32"))[..., 0]  # [B, H, W]
        height, width = mask.shape[1:]
        x = ((np.arange(width, dtype="float32") + 0.5) / width)[None, None, :]
        y = ((np.arange(height, dtype="float32") + 0.5) / height)[None, :, None]
        mask = mask / (ops.sum(mask, axis=(1, 2), keepdims=True) + 1e-4)

        def mean(values):
            return ops.sum(mask * values, axis=(1, 2), keepdims=True)

        x, y = x - mean(x), y - mean(y)
        spread = ops.sqrt(mean(ops.square(x)) * mean(ops.square(y)) + 1e-8)
        return (mean(x * y) / spread)[:, :, 0]


def _pyramid(inputs):
    """Join maps of several sizes from the coarsest to the finest."""
    sizes = sorted({tuple(each.shape[1:3]) for each in inputs})
    x = None
    for level, size in enumerate(sizes):
        maps = [each for each in inputs if tuple(each.shape[1:3]) == size]
        maps = layers.Concatenate()(maps) if len(maps) > 1 else maps[0]
        lateral = _conv_bn(maps, f"{PREFIX}lateral{level}")
        if x is not None:
            x = ops.image.resize(x, size, interpolation="bilinear")
            lateral = layers.Add()([x, lateral])
        x = _separable(layers.ReLU()(lateral), f"{PREFIX}level{level}")
    return _separable(x, f"{PREFIX}finest")


def _edges(features, axis):
    """Return where the object begins and ends along an axis, and how far both deviate.

    Both are pairs of [B, 1].
    """
    pooled = 1 if axis == "x" else 2  # over rows, for a profile along x
    profile = layers.Concatenate()(
        [ops.max(features, axis=pooled), ops.mean(features, axis=pooled)]
    )  # [B, S, 2(C + 1)]
    name = f"{PREFIX}{axis}"
    x = layers.Conv1D(CHANNELS, 5, padding="same", use_bias=False, name=f"{name}_conv")(profile)
    x = layers.ReLU()(BatchNormalization(momentum=0.9, name=f"{name}_bn")(x))
    x = layers.UpSampling1D(2)(x)
    x = layers.ReLU()(layers.Conv1D(CHANNELS, 5, padding="same", name=f"{name}_fine")(x))
    # Narrow, as in `gc_net.backbones.layers.outputs`: a fresh detector starts in the middle.
    narrow = keras.initializers.RandomNormal(stddev=0.01)
    x = layers.Conv1D(2, 5, padding="same", kernel_initializer=narrow, name=f"{name}_logits")(
        x
    )  # [B, 2S, 2]
    return [(both[:, :1], both[:, 1:]) for both in SoftArgmax(dtype="float32")(x)]


def _separable(x, name):
    """Filter each channel by itself, then mix channels."""
    x = layers.DepthwiseConv2D(3, padding="same", use_bias=False, name=f"{name}_depthwise")(x)
    return layers.ReLU()(_conv_bn(x, name))


def _conv_bn(x, name):
    x = layers.Conv2D(CHANNELS, 1, use_bias=False, name=f"{name}_conv")(x)
    # A warm-up may have a few hundred steps only: Keras' momentum of 0.99 would lag behind.
    return BatchNormalization(momentum=0.9, name=f"{name}_bn")(x)
