"""The course a detector's training takes: its logs, and what was set."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

# "Well above chance" is a tenth of the way to always right, or twice chance where that is less.
CHANCE_MARGIN = 0.1


@dataclasses.dataclass(frozen=True)
class Setup:
    """What was set, so that advice can name it. None where it is not known.

    Attributes:
        num_classes: Number of classes.
        alpha, beta, gamma: Weights of the losses.
        learning_rate: The base rate.
        head: The detector's head.
        cross_fitted: Whether no classifier judges the images it was fitted on.
    """

    num_classes: int | None = None
    alpha: float | None = None
    beta: float | None = None
    gamma: float | None = None
    learning_rate: float | None = None
    head: str | None = None
    cross_fitted: bool | None = None

    def flag(self, name):
        """Return the flag of a setting, with its value."""
        value = getattr(self, name)
        return f"--{name}" if value is None else f"--{name} ({value:g} now)"

    def scaled(self, name, factor):
        """Return a value to try: a multiple of what was set, 1 where that was nothing."""
        value = getattr(self, name)
        return f"{value * factor:.2g}" if value else "1"

    def chance(self):
        """Return the accuracy of guessing, and one that is well above it; None if not known."""
        if not self.num_classes or self.num_classes < 2:
            return None
        chance = 1 / self.num_classes
        return chance, min(2 * chance, chance + CHANCE_MARGIN * (1 - chance))


@dataclasses.dataclass(frozen=True)
class Course:
    """How training has gone so far.

    Attributes:
        history: Logs by epoch, oldest first; the last are those being judged.
        fresh: Whether the first of them are those of a fresh head's very first epoch.
        finished: Whether training is over.
        setup: A `Setup`.
    """

    history: Sequence[Mapping[str, float]]
    fresh: bool = True
    finished: bool = False
    setup: Setup = Setup()

    @property
    def now(self):
        return self.history[-1]

    @property
    def warming_up(self):
        """Whether these are the means over a fresh head's first epoch, much of it the start."""
        return self.fresh and len(self.history) == 1

    def before(self, name, at_start=None):
        """Return the value of an epoch before; `at_start` before a fresh head's first epoch."""
        if len(self.history) > 1:
            return self.history[-2].get(name)
        return at_start if self.fresh else None

    def unit(self, statistic):
        """Return the `"mean"` or `"spread"` of each coefficient, as fractions of its range."""
        prefix = f"{statistic}_"
        values = {
            name.removeprefix(prefix): value
            for name, value in self.now.items()
            if name.startswith(prefix)
        }
        if "angle" in values:  # radians in (−π/2, π/2)
            values["angle"] = values["angle"] / math.pi + 0.5 * (statistic == "mean")
        return values
