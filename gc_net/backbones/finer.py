"""A trunk whose last map has twice the side, for finer heat maps."""

import keras


def finer(trunk: keras.Model) -> keras.Model:
    """Return a trunk without its last step down in resolution; weights have the same names.

    The convolutions or poolings that make the coarsest map move by one position instead of two. A
    network of stride 32 then has stride 16, as in the work on class activation maps (Zhou et al.
    2016; Choe et al. 2020 call it a large feature map).
    """
    steps = {layer.name: layer.output.shape[1] for layer in trunk.layers if _steps_down(layer)}
    last = {name for name, side in steps.items() if side == min(steps.values())}

    def without_step(layer):
        config = layer.get_config()
        if layer.name in last:
            config |= {"strides": 1, "padding": "same"}
        return layer.__class__.from_config(config)

    inputs = keras.Input(trunk.input_shape[1:], name=trunk.inputs[0].name)
    clone = keras.models.clone_model(trunk, input_tensors=inputs, clone_function=without_step)
    return keras.Model(clone.inputs[0], clone.outputs[0], name=trunk.name)


def _steps_down(layer):
    strides = getattr(layer, "strides", 1)
    return max(strides if isinstance(strides, (tuple, list)) else (strides,)) > 1
