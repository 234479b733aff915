"""A training for a given time: image size and steps are picked before it starts.

First, the steps of all stages are cut in the same way, down to half of them. Then images are made
smaller. Then steps are cut again, down to what still makes sense. A training never gets longer than
its settings, because recipes were tried with these.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gc_net.run_files import RunError
from gc_net.settings import Settings, read_duration
from gc_net.stages.base import Stage
from gc_net.stages.config import with_flags
from gc_net.stages.dependencies import reads_images

if TYPE_CHECKING:
    from gc_net.training.estimate import Speed

# Images are made smaller before less than this part of the steps is left.
_ENOUGH = 0.5
# With a smaller part of the steps, or fewer steps, shapes do not follow the images: 30 steps of a
# warm-up were no better than a centred box, a hundred were.
_LEAST_SHARE, _LEAST_STEPS = 0.2, 100
# Down to 128 pixels of 224: smaller images show too little. Below 32, a trunk's last map vanishes.
_SIZES, _SMALLEST_SIZE = (1, 6 / 7, 5 / 7, 4 / 7), 32
# A stage makes, traces and saves its network, and reads another; in units of making one.
_STARTS = 4
# Overhead of a step: reading a batch, the forward and backward graph, progress and logs.
_STEP_CALLS = 5
# The evaluation at the end: ten windows for the classifier, two looks of the detector, a second
# look. How far shapes follow the images is asked of ten windows of up to 128 images.
_TEST_PASSES, _WINDOWS, _MOST_IN_WINDOWS = 14, 10, 128


@dataclasses.dataclass(frozen=True)
class Budget:
    """The time for a training.

    Attributes:
        text: The given text: 90s, 15m or 2h.
        fixed: Flags whose values stay as they are, because they are on the command line.
    """

    text: str
    fixed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        read_duration(self.text)

    @property
    def seconds(self) -> float:
        return read_duration(self.text)

    def fixes_size(self) -> bool:
        return bool(self.fixed & {"image_size", "resize_size"})

    def fixes_steps(self, section: str) -> bool:
        lengths = ("steps", "epochs", "min_steps", "max_steps")
        return bool(self.fixed & {f"{section}_{length}" for length in lengths})


class Images(NamedTuple):
    """The number of training images, and of test images for the evaluation at the end."""

    train: int
    test: int


class Pick(NamedTuple):
    """The settings that fit a budget.

    Attributes:
        flags: Values of the flags that it changes; none if the whole training fits.
        seconds: Estimated time of the training with these flags.
        whole_seconds: Estimated time of the whole training.
    """

    flags: dict[str, int]
    seconds: float
    whole_seconds: float


def pick(
    config: Settings, budget: Budget, units: Iterable[Stage], images: Images, speed: "Speed"
) -> Pick:
    """Return the image size and the steps with which a training fits a budget.

    Args:
        config: The `TrainConfig` of the whole training.
        budget: How long it may take, and which flags must not change.
        units: The trainings that the settings ask for.
        images: The numbers of images.
        speed: The speed of this machine.

    Raises:
        RunError: If even the least that makes sense takes longer.
    """
    from gc_net.training.estimate import at_least, in_words

    units = _of_images(units)
    whole = seconds_of(config, units, images, speed)
    if whole <= budget.seconds:
        return Pick({}, whole, whole)
    flags, least = {}, whole
    for flags in _choices(config, budget, units, images):
        least = seconds_of(with_flags(config, flags), units, images, speed)
        if least <= budget.seconds:
            return Pick(flags, least, whole)
    raise RunError(
        f"A budget of {budget.text} is too short. The least that makes sense here, "
        f"{described(with_flags(config, flags), units, images)}, takes about {in_words(least)}; "
        f"the whole training, about {in_words(whole)}. "
        f"Give --budget={at_least(1.1 * least)} or more."
    )


def seconds_of(config: Settings, units: Iterable[Stage], images: Images, speed: "Speed") -> float:
    """Return the estimated time of a run's trainings and of the evaluation at its end."""
    pass_seconds = speed.at(config.data.image_size)
    seconds = pass_seconds * (
        _TEST_PASSES * images.test + _WINDOWS * min(images.test, _MOST_IN_WINDOWS)
    )
    for unit in units:
        steps, cost = unit.likely_steps(config, images.train), unit.cost(config, images.train)
        seconds += _STARTS * speed.start_seconds + _STEP_CALLS * steps * speed.call_seconds
        seconds += pass_seconds * (cost.once + steps * cost.step)
    return seconds


def described(config: Settings, units: Iterable[Stage], images: Images) -> str:
    """Return the image size and the steps of a training in words."""
    lengths = {}
    for unit in _of_images(units):
        steps = unit.likely_steps(config, images.train)
        if steps:
            lengths.setdefault(unit.section.replace("_", " "), steps)
    steps = [f"{steps:,} of the {name}" for name, steps in lengths.items()]
    steps[:1] = [text.replace(" of", " steps of", 1) for text in steps[:1]]
    return " and ".join(
        [", ".join([f"images of {config.data.image_size} pixels", *steps[:-1]]), *steps[-1:]]
    )


def _choices(config, budget, units, images) -> Iterator[dict[str, int]]:
    """Yield the flags of shorter and shorter trainings; the last is the shortest."""
    sizes = [config.data.image_size] if budget.fixes_size() else _sizes(config.data.image_size)
    enough, least = round(100 * _ENOUGH), round(100 * _LEAST_SHARE)
    for size in sizes:
        down_to = least if size == sizes[-1] else enough
        for percent in range(100, down_to - 1, -1):
            steps = _shortened(config, budget, units, images, percent / 100)
            yield {**_resized(config, size), **steps}


def _sizes(image_size):
    multiple = 32 if image_size >= 128 else 16
    sizes = {multiple * round(image_size * part / multiple) for part in _SIZES[1:]}
    smaller = {size for size in sizes if _SMALLEST_SIZE <= size < image_size}
    return [image_size, *sorted(smaller, reverse=True)]


def _resized(config, size):
    """Return the flags of another image size; networks see the same part of an image."""
    data = config.data
    if size == data.image_size:
        return {}
    resize_size = round(data.resize_size * size / data.image_size)
    return {"image_size": size, **({"resize_size": resize_size} if data.resize_size else {})}


def _shortened(config, budget, units, images, share):
    """Return the flags of a part of the steps of all stages whose length is not fixed."""
    flags = {}
    for unit in units:
        asked, section = unit.likely_steps(config, images.train), unit.section
        steps = min(asked, max(round(share * asked), _LEAST_STEPS))
        if steps < asked and not budget.fixes_steps(section):
            flags.setdefault(f"{section}_steps", steps)
    return flags


def _of_images(units):
    """Return the units that read images; a generator is trained on drawn shapes, once for all."""
    return [unit for unit in units if reads_images(unit)]
