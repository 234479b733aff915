"""TensorFlow's graph of networks whose batch normalization is folded into their convolutions."""

from typing import Any

from gc_net.backbones.folding import folded
from gc_net.backbones.network import Network
from gc_net.engines.base import CopyingEngine, Forward


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
