"""Failures of a detector's training, found in its logs alone; no box is read.

Each rule is a function of a `TrainingHistory`. It returns None, or a `Finding`: what is seen, in
numbers, and what to change. Thresholds carry their reasons. Shapes are measured in fractions of the
image, so the rules hold at every image size.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

# A shape of a fifth of the side, 28 of 128 pixels, is becoming a dot, unless the classifier
# recognises its content: some objects are that small.
SMALL_AREA = 0.05
# A tenth of the side, where nothing can be recognised.
DOT_AREA = 0.01
# A small shape that gains a tenth in an epoch is recovering, and so is a large one that loses it.
GROWING = 1.1
# A fresh head starts in the middle at half the width and half the height.
FRESH_AREA = 0.25
# In trials on CUB areas of 0.3 to 0.45 went with good boxes, 0.77 and more with bad ones.
WHOLE_AREA = 0.75
# As a fraction of a coefficient's range: half a pixel at 128. A fresh head has 0.01 to 0.05, a
# detector that follows the object has 0.03 and more.
SAME_SPREAD = 0.004
# Closer than this to the middle of its range, a coefficient has not moved from a fresh head's
# start.
UNMOVED = 0.03
# Here the sigmoid's slope is a thirteenth of that in the middle, and it falls further beyond.
SATURATED = 0.02
# Values spread evenly over the range have 0.29; more than 0.4 lie at both its ends.
SPLIT_SPREAD = 0.4
# At ε = 1 the mask is 0.75 in the middle of the shape and 0.25 well outside it: nothing is hidden.
WIDE_EPSILON = 1.0
# The edge of a shape of half the image is a tenth of a pixel wide at 224: hardly a pixel lies in
# it, and the gradient, proportional to ε away from the edge, is a fiftieth of that at 0.1.
NARROW_EPSILON = 0.002
# A background that is recognised half as often as the object, above chance, still holds much of it.
BACKGROUND_SHARE = 0.5
# 1 − entropy/ln C: 0 for a pure guess, 1 for certainty. A soft mask lets a trace of the object
# through, so the class may be right with low certainty. In trials on CUB this was 0.37 with the
# exact boxes and 0.60 with boxes of 0.7 times their extents.
BACKGROUND_CERTAINTY = 0.5

# "Well above chance" is a tenth of the way to always right, or twice chance if that is less.
CHANCE_MARGIN = 0.1

CROSS_FITTING = (
    "supervise each half of the images by a classifier fitted on the other half "
    "(--classifier_num_folds=2)"
)
RANDOM_MASKS = "train the classifier with random masks (--classifier_mask_fraction=0.5)"
STEADIER_EDGE = (
    "Lower {learning_rate}; take --detector_preset=paper if it is reference, which moves ε ten "
    "times as fast; or --detector_generator=learned, which has no ε."
)


@dataclasses.dataclass(frozen=True)
class Setup:
    """Settings that advice can name; None if unknown.

    Attributes:
        num_classes: Number of classes.
        loss_weights: Weights of the loss terms by name.
        learning_rate: The base rate.
        head: The detector's head.
        cross_fitted: Whether no classifier judges the images it was fitted on.
    """

    num_classes: int | None = None
    loss_weights: Mapping[str, float] | None = None
    learning_rate: float | None = None
    head: str | None = None
    cross_fitted: bool | None = None

    def flag(self, name: str) -> str:
        """Return the flag of a setting, with its value."""
        value = getattr(self, name)
        return f"--detector_{name}" if value is None else f"--detector_{name} ({value:g} now)"

    def weight(self, term: str) -> str:
        """Return what the weight of a loss term is called, with its value."""
        value = (self.loss_weights or {}).get(term)
        now = "" if value is None else f" ({value:g} now)"
        return f"weight of the {term} loss{now}"

    def scaled(self, term: str, factor: float) -> str:
        """Return a flag to try: a multiple of a term's weight, 1 where that was nothing."""
        value = (self.loss_weights or {}).get(term)
        return f"--loss_weights={term}={value * factor if value else 1:.2g}"

    def chance(self) -> tuple[float, float] | None:
        """Return the accuracy of guessing, and an accuracy well above it; None if unknown."""
        if not self.num_classes or self.num_classes < 2:
            return None
        chance = 1 / self.num_classes
        return chance, min(2 * chance, chance + CHANCE_MARGIN * (1 - chance))


@dataclasses.dataclass(frozen=True)
class TrainingHistory:
    """The logs of a training so far.

    Attributes:
        history: Logs by epoch, oldest first; the last ones are judged.
        fresh: Whether the first logs are those of a fresh head's first epoch.
        finished: Whether training is over.
        setup: A `Setup`.
    """

    history: Sequence[Mapping[str, float]]
    fresh: bool = True
    finished: bool = False
    setup: Setup = Setup()

    @property
    def now(self) -> Mapping[str, float]:
        return self.history[-1]

    @property
    def warming_up(self) -> bool:
        """Whether these are means over a fresh head's first epoch, and so mostly its start."""
        return self.fresh and len(self.history) == 1

    def before(self, name: str, at_start: float | None = None) -> float | None:
        """Return the value of an epoch before; `at_start` before a fresh head's first epoch."""
        if len(self.history) > 1:
            return self.history[-2].get(name)
        return at_start if self.fresh else None

    def unit(self, statistic: str) -> dict[str, float]:
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


@dataclasses.dataclass(frozen=True)
class Finding:
    """A failure mode that was found.

    Attributes:
        mode: Its name, e.g. `"dot"`.
        seen: Its signs, with numbers.
        advice: What to change.
    """

    mode: str
    seen: str
    advice: str


def not_finite(training: TrainingHistory) -> Finding | None:
    """The loss is NaN or infinite."""
    setup = training.setup
    bad = [
        name
        for name in ("loss", "area_loss", "object_loss", "background_loss", "epsilon")
        if name in training.now and not math.isfinite(training.now[name])
    ]
    if not bad:
        return None
    values = ", ".join(f"{name} {training.now[name]}" for name in bad)
    return Finding(
        "not_finite",
        f"The loss is no longer a number: {values}. The weights are lost.",
        f"Start again in another --work_dir with a lower {setup.flag('learning_rate')}; "
        "leave out --mixed_precision if it is on; and check the images with gc-net check.",
    )


def dot(training: TrainingHistory) -> Finding | None:
    """The shape shrinks to a dot."""
    setup = training.setup
    area = training.now.get("area_loss")
    if area is None or area >= SMALL_AREA:
        return None
    before = training.before("area_loss", at_start=FRESH_AREA)
    growing = before is not None and area > GROWING * before
    if area >= DOT_AREA and (growing or _recognised(training)):
        return None
    was = "" if before is None else f" ({_number(before)} an epoch before)"
    return Finding(
        "dot",
        f"The shape shrinks to a dot: mean area {_number(area)}{was}{_extents(training)}. "
        "The area loss outweighs what the classifier says.",
        f"Start again with a smaller {setup.weight('area')}, say {setup.scaled('area', 0.4)}, "
        f"or a larger {setup.weight('object')}. If the objects really are this small, "
        f"train on crops around them or with larger images.{_haste(training)}",
    )


def whole_image(training: TrainingHistory) -> Finding | None:
    """The shape is the whole image."""
    setup = training.setup
    if not _covers_all(training):
        return None
    area = training.now["area_loss"]
    before = training.before("area_loss", at_start=FRESH_AREA)
    # A warm-up leaves large shapes; the next epoch shows whether the losses tighten them.
    if not training.finished and (before is None or area * GROWING < before):
        return None
    grows = before is not None and area > before
    does = "grows to" if grows else "covers nearly"
    return Finding(
        "whole_image",
        f"The shape {does} the whole image: mean area {_number(area)}{_extents(training)}."
        f"{' Nothing holds it back.' if grows else ''}",
        f"Raise the {setup.weight('area')}, say {setup.scaled('area', 2.5)}, or lower the "
        f"{setup.weight('object')}. If that does not help, the classifier knows these images by "
        "heart and finds its class in any part of them: "
        f"{_other_classifier(training)}.{_haste(training)}",
    )


def same_everywhere(training: TrainingHistory) -> Finding | None:
    """The shape is the same for every image."""
    setup = training.setup
    spreads = training.unit("spread")
    if not spreads or max(spreads.values()) >= SAME_SPREAD or training.warming_up:
        return None
    name, largest = max(spreads.items(), key=lambda item: item[1])
    if all(abs(mean - 0.5) < UNMOVED for mean in training.unit("mean").values()):
        advice = (
            "It is still where a fresh head starts: train for more epochs, or raise "
            f"{setup.flag('learning_rate')} or --detector_head_multiplier."
        )
    else:
        advice = (
            f"Start again with a lower {setup.flag('learning_rate')} (a tenth), above all for "
            "the last layer: a smaller --detector_head_multiplier."
        )
    if setup.head != "position":
        advice += " --detector_head=position, which keeps where things are, is easier to teach."
    return Finding(
        "same_everywhere",
        "The shape is the same for every image: no coefficient's spread over the images is above "
        f"{_number(largest)} of its range ({name}; 0.03 and more is usual).",
        advice,
    )


def saturated(training: TrainingHistory) -> Finding | None:
    """A coefficient is where the sigmoid is flat, so that nothing moves it."""
    setup = training.setup
    # These are reported already, and in both cases nothing moves the centre.
    if dot(training) or _covers_all(training):
        return None
    flat = []
    spreads = training.unit("spread")
    for name, mean in training.unit("mean").items():
        # An angle at its limit does no harm: both limits are the same axis.
        if name == "angle":
            continue
        if not SATURATED <= mean <= 1 - SATURATED:
            flat.append(f"{name} is {_number(mean)} on average")
        elif spreads.get(name, 0) > SPLIT_SPREAD:
            flat.append(f"{name} lies at 0 or 1 with nothing between (spread {spreads[name]:.2f})")
    if not flat:
        return None
    return Finding(
        "saturated",
        f"The sigmoid is saturated: {', '.join(flat)}. Hardly any gradient comes through.",
        f"Start again with a lower {setup.flag('learning_rate')} or --detector_head_multiplier.",
    )


def object_at_chance(training: TrainingHistory) -> Finding | None:
    """The classifier does no better than guessing on the object images."""
    accuracy, levels = training.now.get("object_accuracy"), training.setup.chance()
    # A dot has nothing to recognise, so it says nothing about the classifier.
    if accuracy is None or levels is None or accuracy >= levels[1] or dot(training):
        return None
    return Finding(
        "object_at_chance",
        f"The classifier recognises {accuracy:.1%} of the object images; guessing would be "
        f"{levels[0]:.1%}. The detector has nothing to learn from.",
        "Look at the classifier's own accuracy first: it may need more epochs, or belong to other "
        f"classes. If it is good on whole images, {RANDOM_MASKS}, so that it knows masked ones.",
    )


def background_recognised(training: TrainingHistory) -> Finding | None:
    """At the end, the classifier still recognises the background images."""
    setup = training.setup
    background, levels = training.now.get("background_accuracy"), training.setup.chance()
    objects, loss = training.now.get("object_accuracy"), training.now.get("background_loss")
    if not training.finished or None in (background, objects, loss, levels):
        return None
    # Then the background holds either all of the object or nothing.
    if dot(training) or _covers_all(training):
        return None
    chance, above = levels
    certainty = 1 + loss / math.log(setup.num_classes)
    seldom = background < above or background - chance < BACKGROUND_SHARE * (objects - chance)
    if seldom or certainty < BACKGROUND_CERTAINTY:
        return None
    return Finding(
        "background_recognised",
        f"The background is still recognised: {background:.1%} of the background images, "
        f"{objects:.1%} of the object images, with an entropy of {1 - certainty:.0%} of the most "
        "there can be. Part of the object lies outside the shape, or the surroundings give the "
        "class away.",
        f"Raise the {setup.weight('background')}, say {setup.scaled('background', 2)}; lower the "
        f"{setup.weight('area')} if the shape is too small. If the classifier has learned "
        f"these same images by heart, {_other_classifier(training)}.",
    )


def wide_edge(training: TrainingHistory) -> Finding | None:
    """ε explodes: the mask no longer hides anything."""
    epsilon = training.now.get("epsilon")
    if epsilon is None or not WIDE_EPSILON < epsilon < math.inf:
        return None
    return Finding(
        "wide_edge",
        f"The mask's edge is washed out: ε is {_number(epsilon)} (0.1 at first), so that the "
        "object shows in the background image too.",
        STEADIER_EDGE.format(learning_rate=training.setup.flag("learning_rate")),
    )


def narrow_edge(training: TrainingHistory) -> Finding | None:
    """ε vanishes: the mask is a step, which passes no gradient."""
    epsilon = training.now.get("epsilon")
    if epsilon is None or not epsilon < NARROW_EPSILON:
        return None
    return Finding(
        "narrow_edge",
        f"The mask's edge is a step: ε is {_number(epsilon)} (0.1 at first), and hardly any "
        "gradient reaches the shape.",
        STEADIER_EDGE.format(learning_rate=training.setup.flag("learning_rate")),
    )


RULES = (
    not_finite,
    dot,
    whole_image,
    same_everywhere,
    saturated,
    object_at_chance,
    background_recognised,
    wide_edge,
    narrow_edge,
)


def diagnose(training: TrainingHistory) -> list[Finding]:
    """Return the `Finding`s for the last logs; NaN makes all others meaningless."""
    lost = not_finite(training)
    if lost is not None:
        return [lost]
    return [finding for rule in RULES if (finding := rule(training)) is not None]


def _covers_all(training):
    return training.now.get("area_loss", 0.0) >= WHOLE_AREA


def _recognised(training):
    """Whether object images are recognised more than half of the way from guessing to always."""
    accuracy, levels = training.now.get("object_accuracy"), training.setup.chance()
    return accuracy is not None and levels is not None and accuracy > (1 + levels[0]) / 2


def _other_classifier(training):
    return RANDOM_MASKS if training.setup.cross_fitted else f"{CROSS_FITTING}, or {RANDOM_MASKS}"


def _extents(training):
    width, height = training.now.get("mean_width"), training.now.get("mean_height")
    if width is None or height is None:
        return ""
    return f", mean extents {_number(width)} × {_number(height)}"


def _haste(training):
    """Return further advice if a fresh head has reached the end of its range very soon."""
    setup = training.setup
    if not training.fresh or len(training.history) > 2:
        return ""
    return f" It came so soon that {setup.flag('learning_rate')} may be too high as well."


def _number(value):
    return f"{value:.2g}"
