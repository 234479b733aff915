"""The record of a model's training, which is kept with the model."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class TrainingRecord:
    """How a model was trained.

    Attributes:
        settings: Settings of the run by section, see `gc_net.stages.config.TrainConfig`; those of
            the dataset are in `data`.
        loss_weights: Weights of the terms of the detector's loss.
        environment: Versions, machine and command.
        stages: The stages that made its parts.
    """

    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    loss_weights: Mapping[str, float] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    stages: Sequence[str] = ()

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            kind, words = (list | tuple, "list") if field.name == "stages" else (Mapping, "dict")
            if not isinstance(value, kind):
                raise ValueError(
                    f"`{field.name}` of a model's record must be a {words}. Received: {value!r}"
                )
        # Always a tuple, also if it was read from JSON.
        object.__setattr__(self, "stages", tuple(self.stages))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TrainingRecord":
        """Build from the result of `to_dict`; an unknown name is an error."""
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = [name for name in values if name not in known]
        if unknown:
            raise ValueError(
                f"A model's record has {', '.join(known)}. Received: {', '.join(unknown)}"
            )
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @property
    def dataset(self) -> Mapping[str, Any]:
        """Settings of the dataset; empty if they are unknown."""
        return self.settings.get("data", {})
