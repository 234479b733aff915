"""The base classes of heads."""

import abc
from collections.abc import Callable

import keras

from gc_net.backbones.base import Backbone


class Head(abc.ABC):
    """A recipe for the last part of a network; holds no variables itself.

    Attributes:
        parametrization: The one parametrization that can read its outputs; None if any can.
        has_mask: Whether it finds edges, and has a mask that can be taught, see
            `gc_net.heads.edges.with_mask`.
    """

    parametrization: str | None = None
    has_mask: bool = False

    def layers(self, backbone: Backbone) -> tuple[str, ...]:
        """Return the layers of the trunk that it looks at; empty for the last one."""
        return ()

    @abc.abstractmethod
    def build(
        self, backbone: Backbone, num_outputs: int, feature_shapes: list[tuple[int, ...]]
    ) -> keras.Model:
        """Return a model called `"head"`: feature maps to raw outputs [B, N].

        Args:
            feature_shapes: Height, width and channels of the map of each of its `layers`.
        """

    def on(self, backbone: Backbone, trunk: keras.Model) -> keras.Model:
        """Return the part of the trunk that this head needs, with its maps as outputs."""
        names = self.layers(backbone)
        if not names:
            return trunk
        maps = [trunk.get_layer(name).output for name in names]
        return keras.Model(trunk.inputs, maps, name=trunk.name)


class OnTrunk(Head):
    """A head on the end of the trunk, by a function.

    Args:
        function: Function of backbone, number of outputs and feature shape to a model.
    """

    def __init__(self, function: Callable[..., keras.Model]):
        self.function = function

    def build(self, backbone, num_outputs, feature_shapes):
        return self.function(backbone, num_outputs, feature_shapes[0])


def feature_shapes(trunk: keras.Model) -> list[tuple[int, ...]]:
    """Return height, width and channels of each of a trunk's outputs."""
    return [tuple(output.shape[1:]) for output in trunk.outputs]
