"""The embedded default dataset, drawn with no download."""

from gc_net.datasets.creatures.dataset import Creatures

__all__ = ["Creatures"]
