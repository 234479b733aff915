"""The base class of the models that warm up a detector."""

import abc
from typing import Any, ClassVar

import keras

from gc_net.detector import Detector
from gc_net.optimizers import BuiltOptimizer


class Matching(BuiltOptimizer, keras.Model, abc.ABC):
    """A detector that is trained to return given targets.

    Args:
        detector: The `Detector` to train.
        on_features: Whether its inputs are the outputs of `detector.features`, instead of images.
    """

    usual_name: ClassVar[str]

    def __init__(
        self,
        detector: Detector,
        on_features: bool = False,
        name: str | None = None,
        **kwargs: Any,
    ):
        super().__init__(name=name or self.usual_name, **kwargs)
        self.detector = detector
        self.on_features = on_features
        self.add_parts()
        self.built = True

    @abc.abstractmethod
    def add_parts(self) -> None:
        """Make the parts that are needed besides the detector."""

    @abc.abstractmethod
    def make_loss(self) -> Any:
        """Return the loss to train by."""

    def compile(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Configure training; the loss is the model's own."""
        # XLA's convolutions are slower than oneDNN's on a CPU.
        super().compile(optimizer=optimizer, loss=self.make_loss(), jit_compile=False)
