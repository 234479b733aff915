"""What every engine offers."""

import abc
import hashlib
import threading
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from gc_net.backbones.network import Network
from gc_net.engines.sharing import Pair, pair_of

# Normalized images [B, S, S, 3] to raw outputs [B, N]; can be called in a graph.
Forward = Callable[[Any], Any]


class EngineError(ValueError):
    """An engine that cannot run a network; the message says why, and what to do."""


class Engine(abc.ABC):
    """Runs networks in inference: trunk and head.

    It takes weights to stay as they are. After they have changed, take another engine.

    Attributes:
        name: Name in the registry.
        exact: Whether outputs are those of the network, but for rounding of float32.
    """

    name: str
    exact: bool = True

    @abc.abstractmethod
    def forward(self, network: Network | Pair) -> Forward:
        """Return a function of normalized images to the raw outputs of a `Network`.

        For the same network with the same weights, it is the same function each time.

        Raises:
            EngineError: If this engine cannot run the network.
        """

    def pair(self, first: Network, second: Network) -> Pair | None:
        """Return two networks that see the same images as one, if they share their first layers."""
        if self._compared is None or self._compared[0] != (first, second):
            self._compared = (first, second), pair_of(first, second)
        return self._compared[1]

    _compared: tuple[tuple[Network, Network], Pair | None] | None = None


class CopyingEngine(Engine):
    """An engine that makes something else of a network's weights, once a process.

    It is made when it is first asked for, kept as long as the network lives, and made again for an
    engine that is taken after the weights have changed.
    """

    _copies: ClassVar["weakref.WeakKeyDictionary[Network | Pair, tuple[bytes, Forward]]"]
    _lock: ClassVar[Any]

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        cls._copies, cls._lock = weakref.WeakKeyDictionary(), threading.RLock()

    def __init__(self) -> None:
        self._forwards: dict[Network | Pair, Forward] = {}

    @abc.abstractmethod
    def copy(self, network: Network | Pair) -> Forward:
        """Return the function of `forward`, made anew; it must not hold the network itself."""

    def digest(self, network: Network | Pair) -> bytes:
        """Return what tells whether a copy is still the one to use."""
        return _digest(network)

    def forward(self, network: Network | Pair) -> Forward:
        if network not in self._forwards:
            # Weights have no values in a graph that may be traced meanwhile.
            with tf.init_scope(), self._lock:
                digest = self.digest(network)
                found, forward = self._copies.get(network, (None, None))
                if found != digest:
                    forward = self.copy(network)
                    self._copies[network] = digest, forward
            self._forwards[network] = forward
        return self._forwards[network]


def _digest(network):
    digest = hashlib.blake2b(digest_size=16)
    for variable in network.variables:
        digest.update(np.ascontiguousarray(variable.numpy()))
    return digest.digest()
