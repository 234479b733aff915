"""Two networks that see the same images, run as one: what they have in common runs once.

A training may leave early layers as they are (`Network.freeze_before`). Detector and classifier
then begin with the same layers and the same weights. These cost much of the time, because they have
the largest maps. What is the same is found by comparing both, so nothing has to declare it.
"""

import collections
import weakref
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops, tree

# What a network does with images does not depend on these.
_IRRELEVANT = ("name", "trainable")


class Pair:
    """Trunks and heads of two networks, which an engine runs as it runs one `Network`.

    It holds layers of both, and does not keep the networks themselves alive.

    Args:
        first, second: Networks, or others with a `normalizer`, a `trunk` and a `head`.
        same: What `same_layers` returns of their trunks.
    """

    name = "pair of detector and classifier"

    def __init__(self, first: Any, second: Any, same: dict[Any, Any]):
        self._networks = weakref.ref(first), weakref.ref(second)
        self._trunks, self._heads = (first.trunk, second.trunk), (first.head, second.head)
        self._normalizer = first.normalizer
        self._first_of = {other: layer for layer, other in same.items()}
        self.image_size = first.trunk.inputs[0].shape[1]
        self.precision = first.head.dtype_policy.name

    @property
    def networks(self) -> tuple[Any, Any]:
        """Both networks."""
        first, second = (network() for network in self._networks)
        return first, second

    @property
    def variables(self) -> list:
        """Those of both. Where layers are the same, those of the first network are used."""
        return [variable for model in (*self._trunks, *self._heads) for variable in model.variables]

    def normalize(self, images: Any) -> Any:
        """Return images as both trunks take them."""
        return self._normalizer(images)

    def trunk(self, normalized: Any, training: bool = False) -> list:
        """Return the maps that each head looks at, of the first network and then of the second."""
        seen = {}

        def remembered(layer):
            def call(*args, **kwargs):
                seen[layer] = layer(*args, **kwargs)
                return seen[layer]

            return call

        def recalled(layer):
            first = self._first_of.get(layer)
            return layer if first is None else lambda *args, **kwargs: seen[first]

        calls = remembered, recalled
        return [
            each
            for trunk, call in zip(self._trunks, calls, strict=True)
            for each in tree.flatten(trunk._run_through_graph([normalized], operation_fn=call))
        ]

    def head(self, maps: list, training: bool = False) -> Any:
        """Return the raw outputs of both side by side, [B, N1 + N2]; `split` parts them."""
        num_first = len(self._trunks[0].outputs)
        parts = maps[:num_first], maps[num_first:]
        outputs = [
            head(each if len(each) > 1 else each[0], training=False)
            for head, each in zip(self._heads, parts, strict=True)
        ]
        return ops.concatenate(outputs, axis=-1)

    def from_normalized(self, normalized: Any) -> Any:
        """Return the raw outputs of both for normalized images, as `head` does."""
        return self.head(self.trunk(normalized))

    def split(self, outputs: Any) -> tuple[Any, Any]:
        """Return the raw outputs [B, N1] and [B, N2] of both."""
        num_first = self._heads[0].outputs[0].shape[-1]
        return outputs[:, :num_first], outputs[:, num_first:]


# {first network: (the second, which layers are the same, the pair)}
_pairs: "weakref.WeakKeyDictionary[Any, tuple[Any, Any, Pair]]" = weakref.WeakKeyDictionary()


def pair_of(first: Any, second: Any) -> Pair | None:
    """Return two `Network`s as one, or None if they have no weights in common.

    It is the same `Pair` each time, as long as the same layers are the same.
    """
    if first.image_size != second.image_size or not _alike(first.normalizer, second.normalizer):
        return None
    with tf.init_scope():  # weights have no values in a graph that may be traced
        same = same_layers(first.trunk, second.trunk)
    if not any(layer.weights for layer in same):
        return None
    found = _pairs.get(first)
    if found is None or found[0]() is not second or found[1] != same:
        found = weakref.ref(second), same, Pair(first, second, same)
        _pairs[first] = found
    return found[2]


def same_layers(first: keras.Model, second: keras.Model) -> dict[Any, Any]:
    """Return which layers of one functional model give the same as which of another.

    These are of the same kind, with the same settings and weights, and their inputs come from
    layers that are the same in turn.
    """
    of_inputs = collections.defaultdict(list)
    for other in second.operations:
        of_inputs[_inputs(other)].append(other)
    same: dict[Any, Any] = {}
    for layer in first.operations:  # inputs come before what uses them
        inputs = tuple((same.get(before), number) for before, number in _inputs(layer))
        others = of_inputs[inputs]
        other = next((other for other in others if _alike(layer, other)), None)
        if other is not None:
            same[layer] = other
            others.remove(other)
    return same


def _inputs(layer):
    """Return the layers that a layer takes its inputs from, and which output of each."""
    before = [tensor._keras_history for tensor in layer._inbound_nodes[0].input_tensors]
    return tuple((each.operation, each.tensor_index) for each in before)


def _alike(layer, other):
    if type(layer) is not type(other) or not isinstance(layer, keras.layers.Layer):
        return False
    return (
        _settings(layer) == _settings(other)
        and len(layer.weights) == len(other.weights)
        and all(
            np.array_equal(weight.numpy(), other_weight.numpy())
            for weight, other_weight in zip(layer.weights, other.weights, strict=True)
        )
    )


def _settings(layer):
    """Return what a layer is set to, and what its call is given besides tensors."""
    config = {name: value for name, value in layer.get_config().items() if name not in _IRRELEVANT}
    given = [
        argument
        for node in layer._inbound_nodes[:1]
        for argument in tree.flatten((node.arguments.args, node.arguments.kwargs))
        if not isinstance(argument, keras.KerasTensor)
    ]
    return config, given
