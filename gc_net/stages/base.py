"""The base class of all stages. It imports no TensorFlow, see `gc_net.stages`."""

import dataclasses
import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from gc_net.settings import Settings, setting

if TYPE_CHECKING:
    import keras
    import numpy as np
    import tensorflow as tf

    from gc_net.stages.stage_run import StageRun


@dataclasses.dataclass(frozen=True)
class StageConfig(Settings):
    """How long a stage is trained.

    Attributes:
        epochs: Passes over the training images; 0 for none.
        steps: Number of updates, instead of epochs; None for the number that the epochs have.
        min_steps: Fewest updates. With few images, there are then more epochs.
        max_steps: Most updates. With many images, there are then fewer epochs. None for no bound.
        batch_size: Images a step, over all devices together.
    """

    epochs: int = setting(0, low=0)
    steps: int | None = setting(None, low=1)
    min_steps: int = setting(0, low=0)
    max_steps: int | None = setting(None, low=1)
    batch_size: int = setting(32, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_steps is not None and self.max_steps < self.min_steps:
            raise ValueError(
                "`max_steps` must be at least `min_steps`. Received: "
                f"max_steps={self.max_steps} and min_steps={self.min_steps}"
            )


@dataclasses.dataclass(frozen=True)
class DetectorStageConfig(StageConfig):
    """Settings of all stages that train a detector.

    Attributes:
        average: Momentum of a running mean of the weights, which replaces them at the end, e.g.
            0.99; 0 for none.
        crop_scale: Smallest side of a random window as a part of the whole image, e.g. 0.6; 0 if
            all windows have the usual size.
        crop_aspect: Largest ratio of a random window's sides; 1 for squares only.
        train_from: First layer of the trunk that is trained, or the beginning of its name; head to
            train only the head; None for the setting of the network.
    """

    average: float = setting(0.0, low=0.0, high=0.99999)
    crop_scale: float = setting(0.0, low=0.0, high=1.0)
    crop_aspect: float = setting(1.0, low=1.0, high=4.0)
    train_from: str | None = None

    def crops(self) -> dict[str, float]:
        """Return the arguments of `pipeline.training_batches` for the random windows."""
        return {"crop_scale": self.crop_scale, "crop_aspect": self.crop_aspect}


@dataclasses.dataclass(frozen=True)
class Batches:
    """What a stage is trained on.

    Attributes:
        make: Function of `epoch`, `start_step`, `num_shards` and `shard_index` to the
            tf.data.Dataset of the rest of that epoch, like `pipeline.training_batches`.
        steps_per_epoch: Number of batches of one pass.
        count: Number of images, or other things, of one pass; None if nothing is counted.
    """

    make: Callable[..., "tf.data.Dataset"]
    steps_per_epoch: int
    count: int | None = None


class Cost(NamedTuple):
    """The estimated cost of a training, in forward passes of an image of the run's size.

    Attributes:
        once: Cost before the first step.
        step: Cost of each step.
    """

    once: float
    step: float


class Stage:
    """One training of a run.

    A subclass declares what it depends on, and builds the model to train. The runner does the rest.

    Attributes:
        name: Name of its folder. If the stage has settings of its own, it is also the name of its
            section in `TrainConfig` and the beginning of its flags.
        title: Its name on the screen.
        settings: Dataclass of its own settings, a `StageConfig`, or None.
        needs: Names of the stages whose results it takes, if the settings ask for these stages.
        follows: Name of another unit of the same stage whose result it takes; empty for none.
        section: Section of `TrainConfig` that holds its settings; the name of the class if it has
            none of its own.
        reads: Other settings that its result depends on: sections, or single settings such as
            `"detector.shape"`. A stage sees only these, and those of the stages it needs.
        seed_name: Name that its random numbers depend on; its own name if empty.
        provides: Arguments of the `Localizer` that its `parts` provide.
        least_logged_steps: Fewest steps of a line of its log, if its length is given in steps.
        of_all_methods: Whether `--method`s other than GC-Net also have this stage.
    """

    name: str = ""
    title: str = ""
    settings: type[Settings] | None = None
    needs: tuple[str, ...] = ()
    follows: str = ""
    section: str = ""
    reads: tuple[str, ...] = ("data", "network")
    seed_name: str = ""
    provides: tuple[str, ...] = ()
    least_logged_steps: int = 25
    of_all_methods: bool = False

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if "section" not in cls.__dict__:
            cls.section = cls.name

    @classmethod
    def units(cls, config: Settings) -> list["Stage"]:
        """Return the trainings that a `TrainConfig` asks for: none, this one, or one for each part.

        Each has its own name, and so its own folder.
        """
        return [cls()] if is_trained(getattr(config, cls.section)) else []

    @classmethod
    def check_settings(cls, config: Settings) -> None:
        """Raise a ValueError if settings of several sections do not fit together."""

    @classmethod
    def resolve(cls, config: Settings) -> Settings:
        """Return the settings with open values filled in that depend on other settings."""
        return config

    @classmethod
    def reopen(cls, config: Settings) -> Settings:
        """Return the settings without the values that `resolve` would fill in again."""
        return config

    @property
    def passes(self) -> float:
        """Estimated number of forward passes of a network that training takes for an image.

        A backward pass costs as much as two forward passes. If masks are drawn, the classifier also
        sees the object and the background.
        """
        return 9.0 if "generator" in self.needs else 3.0

    def cost(self, config: Settings, num_images: int) -> Cost:
        """Return the estimated cost of a training on `num_images` with the settings of a run."""
        settings = self.own_settings(config)
        size = config.data.image_size
        scale = ((getattr(settings, "image_size", None) or size) / size) ** 2
        return Cost(0.0, self.passes * settings.batch_size * scale)

    def likely_steps(self, config: Settings, num_images: int) -> int:
        """Return the number of steps that the settings of a run ask for with `num_images`."""
        settings = self.own_settings(config)
        return num_steps(settings, max(num_images // settings.batch_size, 1))

    def own_settings(self, config: Settings) -> Settings:
        """Return the section of a `TrainConfig` that holds its settings."""
        return getattr(config, self.section)

    def record(self) -> dict[str, Any]:
        """Return what else identifies its result among units with the same settings."""
        return {}

    def recorded(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the settings that its result depends on, without those that make no difference."""
        return settings

    def result(self, config: Settings) -> str:
        """Return the file in its folder that is written last, and so shows that it is finished."""
        return os.path.join("model", "model.json")

    def images(self, run: "StageRun") -> "np.ndarray | None":
        """Return the indices of the images it is trained on; None for all."""
        return None

    def check(self, run: "StageRun") -> int:
        """Raise if training would fail, before any stage has begun.

        Returns:
            The number of steps that it will take, if that is known.
        """
        images = self.images(run)
        count = None if images is None else len(images)
        return num_steps(run.settings, run.steps_per_epoch(count))

    def batches(self, run: "StageRun") -> Batches | None:
        """Return what to train on; None if nothing is to be trained."""
        images = self.images(run)
        count = len(run.data.split) if images is None else len(images)
        make = functools.partial(run.data.batches, run.settings.batch_size, images)
        return Batches(make, run.steps_per_epoch(count), count)

    def build(self, run: "StageRun", num_steps: int) -> "keras.Model":
        """Return the compiled model to train.

        Args:
            num_steps: Steps of the whole training, for schedules; 0 if nothing is trained and the
                model need not be compiled.
        """
        raise NotImplementedError

    def callbacks(self, run: "StageRun", model: "keras.Model") -> list["keras.callbacks.Callback"]:
        """Return its own callbacks; progress, the log and scalars are there already."""
        return []

    def finish(self, run: "StageRun", model: "keras.Model") -> None:
        """Write the result with `run.save`, which writes only in the first of several processes."""
        raise NotImplementedError

    def parts(self, run: "StageRun") -> dict[str, Any]:
        """Return what it `provides`, by name, once it is finished."""
        return {}


def is_trained(settings: Settings) -> bool:
    """Return whether a stage of these settings is trained at all, in steps."""
    return bool(getattr(settings, "steps", None) or getattr(settings, "epochs", None))


def num_steps(settings: Settings, steps_per_epoch: int) -> int:
    """Return the steps of a whole training: `steps`, or else those of `epochs` in their bounds."""
    if settings.steps or not settings.epochs:
        return settings.steps or 0
    steps = max(settings.epochs * steps_per_epoch, settings.min_steps)
    return min(steps, settings.max_steps or steps)
