"""Engines: what runs a trained network. All but the last give the same outputs, but for rounding.

| name | what it is |
|---|---|
| `tensorflow` | TensorFlow's own graph, on any device |
| `folded` | the same with batch normalization folded into convolutions; what is exported |
| `xnnpack` | the network as a TFLite model in memory, run by XNNPACK: faster, on CPUs alone |
| `int8` | the same in integers of eight bits, calibrated on images: faster again, not the same |

Nothing else in the package asks which engine it has: an engine gives a function of normalized
images to a network's raw outputs, and the graphs of `gc_net.prediction.graph` call that. Every one
can run two networks as one, see `gc_net.engines.sharing`.
"""

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gc_net.registry import Registry

if TYPE_CHECKING:
    from gc_net.backbones.network import Network
    from gc_net.engines.base import Engine
    from gc_net.engines.sharing import Pair

ENGINES = Registry(
    "engine",
    {
        "tensorflow": "gc_net.engines.tensorflow:TensorFlow",
        "folded": "gc_net.engines.folded:Folded",
        "xnnpack": "gc_net.engines.xnnpack:XNNPack",
        "int8": "gc_net.engines.int8:Int8",
    },
)

# Chooses one of the others by the device and the number of images.
AUTO = "auto"

# To convert EfficientNet-Lite0 takes some 0.7 s of processor time more than to build TensorFlow's
# graph of it. A pass then saves 10 ms at 224 pixels and 2.5 ms at 128: 70 to 280 passes bring that
# back, and with a mean of mirror images the detector makes two an image.
PAYS_FROM = 128

_log = logging.getLogger("gc_net")


def names() -> tuple[str, ...]:
    """Return what `ready` takes: `"auto"`, and the engines."""
    return (AUTO, *ENGINES)


def get(name: "str | Engine") -> "Engine":
    """Return a new engine called `name`; an engine passes through."""
    return ENGINES.get(name)() if isinstance(name, str) else name


def ready(
    name: "str | Engine",
    networks: "Callable[[Engine], Iterable[Network | Pair]]",
    num_images: int,
) -> "Engine":
    """Return an engine that has the networks ready to run.

    Args:
        name: Name of an engine, or an `Engine`. `"auto"` takes `xnnpack` where it is the faster
            one: on a computer without GPUs, for float32 networks, and from `PAYS_FROM` images on,
            so that the conversion pays. Where it cannot convert a network, that is logged, and
            TensorFlow runs all of them.
        networks: Function of an engine to the networks that it will run, for example
            `Localizer.networks`.
        num_images: How many images they will see.

    Raises:
        EngineError: If an engine that was asked for by name cannot run a network.
    """
    from gc_net.engines.base import EngineError

    if name == AUTO:
        name, fast = "tensorflow", get("xnnpack")
        if num_images >= PAYS_FROM and _suits_xnnpack(networks(fast)):
            try:
                return _loaded(fast, networks)  # the same one, which has compared the networks
            except EngineError as error:
                _log.warning("%s The engine `tensorflow` runs the networks instead.", error)
    return _loaded(name, networks)


def _loaded(name, networks):
    engine = get(name)
    for network in networks(engine):
        engine.forward(network)
    return engine


def _suits_xnnpack(networks):
    import tensorflow as tf

    precise = all(network.precision == "float32" for network in networks)
    return precise and not tf.config.list_physical_devices("GPU")
