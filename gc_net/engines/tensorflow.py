"""TensorFlow's own graph."""

from gc_net.backbones.network import Network
from gc_net.engines.base import Engine, Forward
from gc_net.engines.sharing import Pair


class TensorFlow(Engine):
    """Runs a network as it is: on any device, in any precision, and with gradients."""

    name = "tensorflow"

    def forward(self, network: Network | Pair) -> Forward:
        return network.from_normalized
