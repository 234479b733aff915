"""The paper's parametrization: a sigmoid for each coefficient."""

from keras import ops

from gc_net.parametrizations.base import Parametrization, logit


class Sigmoid(Parametrization):
    """A sigmoid for each coefficient, as in the paper."""

    name = "sigmoid"

    def decode(self, raw, shape):
        return shape.from_unit(ops.sigmoid(ops.cast(raw, "float32")))

    def encode(self, coefficients, shape, margin=1e-4):
        return logit(shape.to_unit(coefficients), margin)
