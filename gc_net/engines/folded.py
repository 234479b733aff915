"""TensorFlow's graph of networks whose batch normalization is folded into their convolutions."""

from typing import Any

from gc_net.backbones.folding import folded
from gc_net.backbones.network import Network
from gc_net.engines.base import CopyingEngine, Forward
from gc_net.engines.sharing import Pair, same_layers


class Folded(CopyingEngine):
    """Runs copies of networks with fewer operations: on any device, and in exported models."""

    name = "folded"

    def copy(self, network: Network | Pair) -> Forward:
        if isinstance(network, Pair):  # of the copies that there are of each
            first, second = map(self.forward, network.networks)
            return Pair(first, second, same_layers(first.trunk, second.trunk)).from_normalized
        return FoldedNetwork(network)


class FoldedNetwork:
    """Trunk and head of a network, folded.

    Args:
        network: The `Network`.

    Attributes:
        normalizer: That of the network.
        trunk, head: Copies of the network's own.
        variables: What a SavedModel has to hold.
    """

    def __init__(self, network: Network):
        self.normalizer = network.normalizer
        self.trunk, self.head = folded(network.trunk), folded(network.head)
        self.variables = [*self.trunk.variables, *self.head.variables]

    def __call__(self, normalized: Any) -> Any:
        return self.head(self.trunk(normalized, training=False), training=False)
