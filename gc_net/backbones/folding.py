"""Batch normalization folded into the convolution before it.

With stored statistics a batch normalization multiplies and shifts each channel by constants, which
the convolution before it can do with other weights. What is left out is a pass over every feature
map: in a copy of a network that is run as it is, and in a training step through layers that are
frozen.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

_LINEAR = keras.layers.Conv1D | keras.layers.Conv2D | keras.layers.Dense


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
        if not layer.weights:  # inputs may have other names
            continue
        source = model.get_layer(layer.name)
        if layer.name in normalizations:
            weights = _folded_weights(source, normalizations[layer.name], np.float64)
            layer.set_weights([np.asarray(weight) for weight in weights])
        else:
            layer.set_weights(source.get_weights())
    return copy


def call_folded(model: keras.Model, inputs: Any, training: bool = False) -> Any:
    """Call a functional model, folding batch normalizations that take stored statistics.

    Outputs and gradients are those of the model itself, but for rounding. Weights are folded anew
    with each call, so that the model stays the only place where they are kept: it pays for batches
    of images, of which a map is larger than a kernel.

    Args:
        model: A trunk or a head.
        inputs: What it takes.
        training: Whether layers that are trainable normalize by statistics of the batch.
    """
    normalizations = {
        name: layer
        for name, layer in _foldable(model).items()
        if not (training and layer.trainable)
    }
    if not normalizations:
        return model(inputs, training=training)
    gone = set(normalizations.values())

    def call(layer, inputs, *args, **kwargs):
        if layer in gone:
            return inputs
        if layer.name in normalizations:
            return _Folded(layer, normalizations[layer.name])(inputs)
        return layer(inputs, *args, **kwargs)

    shared = keras.models.clone_model(model, clone_function=lambda layer: layer, call_function=call)
    return shared(inputs, training=training)


class _Folded(keras.layers.Layer):
    """A layer and the batch normalization behind it as one, with the weights of both."""

    def __init__(self, layer, normalization):
        super().__init__(name=layer.name, dtype=layer.dtype_policy)
        self.layer, self.normalization = layer, normalization
        self.built = True

    def call(self, inputs):
        kernel, shift = _folded_weights(self.layer, self.normalization, "float32")
        weights = [kernel, shift][: len(self.layer.variables)]
        given = (weights, []) if self.layer.trainable else ([], weights)
        outputs, _ = self.layer.stateless_call(*given, inputs)
        return outputs if self.layer.use_bias else outputs + ops.cast(shift, outputs.dtype)


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


def _folded_weights(layer, normalization, dtype):
    """Return kernel and bias of a layer that does what both do."""

    def known(variable, otherwise):
        return otherwise if variable is None else ops.cast(variable, dtype)

    scale = known(normalization.gamma, 1.0) / ops.sqrt(
        known(normalization.moving_variance, None) + normalization.epsilon
    )
    bias = known(layer.bias, 0.0)
    shift = (bias - known(normalization.moving_mean, None)) * scale
    shift = shift + known(normalization.beta, 0.0)
    # A depthwise kernel [h, w, C, M] has C·M outputs, the M of one channel side by side.
    is_depthwise = isinstance(layer, keras.layers.DepthwiseConv2D)
    kernel = ops.cast(layer.kernel, dtype)
    return kernel * (ops.reshape(scale, kernel.shape[-2:]) if is_depthwise else scale), shift
