"""What is known of a model's training, kept with the model."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class TrainingRecord:
    """How a model came about.

    Attributes:
        settings: Settings of the run by section, see `gc_net.stages.config.TrainConfig`; those of
            the dataset are in `data`.
        loss_weights: Weights of the terms of the detector's loss.
        environment: Versions, machine and command.
        stages: The stages that have left a part of it.
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
        # As a tuple whether given as one or read from JSON.
        object.__setattr__(self, "stages", tuple(self.stages))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TrainingRecord":
        """Build from what `to_dict` returned; a name that is not known is an error."""
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
        """Settings of the dataset; empty where they are not known."""
        return self.settings.get("data", {})
