"""TensorFlow's graph of networks whose batch normalization is folded into their convolutions.

In inference a batch normalization multiplies and shifts each channel by constants, which the
convolution before it can do with other weights. What is left out is a pass over every feature map.
"""

from typing import Any

import keras
import numpy as np

from gc_net.backbones.network import Network
from gc_net.engines.base import CopyingEngine, Forward

_LINEAR = keras.layers.Conv1D | keras.layers.Conv2D | keras.layers.Dense


class Folded(CopyingEngine):
    """Runs copies of networks with fewer operations: on any device, and in exported models."""

    name = "folded"

    def copy(self, network: Network) -> Forward:
        return FoldedNetwork(network)


class FoldedNetwork:
    """Trunk and head of a network, folded.

    Args:
        network: The `Network`.

    Attributes:
        variables: What a SavedModel has to hold.
    """

    def __init__(self, network: Network):
        self._trunk, self._head = folded(network.trunk), folded(network.head)
        self.variables = [*self._trunk.variables, *self._head.variables]

    def __call__(self, normalized: Any) -> Any:
        return self._head(self._trunk(normalized, training=False), training=False)


def folded(model: keras.Model) -> keras.Model:
    """Return a copy of a functional model without the batch normalizations that can be folded.

    These are the ones right after a convolution or a dense layer that nothing else looks at. All
    other layers keep their names.

    Args:
        model: A trunk or a head.
    """
    normalizations = _foldable(model)
    gone = {layer.name for layer in normalizations.values()}

    def clone(layer):
        config = layer.get_config()
        if layer.name in normalizations:
            config["use_bias"] = True
        return type(layer).from_config(config)

    def call(layer, inputs, *args, **kwargs):
        return inputs if layer.name in gone else layer(inputs, *args, **kwargs)

    copy = keras.models.clone_model(model, clone_function=clone, call_function=call)
    for layer in copy.layers:
        if layer.name in normalizations:
            source = model.get_layer(layer.name)
            layer.set_weights(_folded_weights(source, normalizations[layer.name]))
        elif layer.weights:
            layer.set_weights(model.get_layer(layer.name).get_weights())
    return copy


def _foldable(model):
    """Return {name of a layer: the batch normalization that it can take in}."""
    operations = set(model.operations)
    outputs = {id(output) for output in model.outputs}
    found = {}
    for layer in model.layers:
        if not isinstance(layer, keras.layers.BatchNormalization):
            continue
        before = layer.input._keras_history.operation
        users = {node.operation for node in before._outbound_nodes} & operations
        if (
            isinstance(before, _LINEAR | keras.layers.DepthwiseConv2D)
            and before.activation is keras.activations.linear
            and users == {layer}
            and id(before.output) not in outputs
            and layer.axis in (-1, len(layer.input.shape) - 1)
        ):
            found[before.name] = layer
    return found


def _folded_weights(layer, normalization):
    """Return kernel and bias of a layer that does what both do."""
    mean, variance = (
        np.asarray(weight, np.float64)
        for weight in (normalization.moving_mean, normalization.moving_variance)
    )
    scale = 1 / np.sqrt(variance + normalization.epsilon)
    if normalization.gamma is not None:
        scale = scale * np.asarray(normalization.gamma)
    kernel, *bias = layer.get_weights()
    shift = ((bias[0] if bias else 0.0) - mean) * scale
    if normalization.beta is not None:
        shift = shift + np.asarray(normalization.beta)
    # A depthwise kernel [h, w, C, M] has C·M outputs, the M of one channel side by side.
    is_depthwise = isinstance(layer, keras.layers.DepthwiseConv2D)
    kernel = kernel * (scale.reshape(kernel.shape[-2:]) if is_depthwise else scale)
    return [kernel, shift]
