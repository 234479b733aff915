"""How a detector's training fails, told from its logs alone: no box is looked at.

Each way to fail is a function of a `Course` that returns None, or a `Finding`: what is seen, in
numbers, and what to change. Thresholds carry their reasons; shapes are measured in fractions of
the image, so they hold at every image size.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

# A shape of a fifth of the side, 28 of 128 pixels: little is recognised in it. A detector that
# found objects that small would be recognising them and would have stopped shrinking.
SMALL_AREA = 0.05
# A tenth of the side. Nothing is recognised in it, whether it still shrinks or not.
DOT_AREA = 0.01
# Shrinking is a loss of a tenth in one epoch; less is seen in healthy courses.
SHRINKING = 0.9
# A fresh head starts in the middle at half the width and half the height.
FRESH_AREA = 0.25
# On CUB areas of 0.3 to 0.45 go with good boxes, and 0.77 and more with boxes of nearly all.
WHOLE_AREA = 0.75
# As a fraction of a coefficient's range: half a pixel at 128. A fresh head gives 0.01 to 0.05,
# detectors that follow the object 0.03 and more.
SAME_SPREAD = 0.004
# Nearer than this to the middle of its range, a coefficient has not left a fresh head's start.
UNMOVED = 0.03
# The sigmoid's slope is here a thirteenth of that in the middle, and falls further beyond.
SATURATED = 0.02
# Values spread evenly over the range have 0.29; more than 0.4 lie at both its ends.
SPLIT_SPREAD = 0.4
# At ε = 1 the mask is 0.75 in the middle of the shape and 0.25 well outside it: nothing is hidden.
WIDE_EPSILON = 1.0
# The edge of a shape of half the image is a tenth of a pixel wide at 224: hardly a pixel lies in
# it, and the gradient, proportional to ε away from the edge, is a fiftieth of that at 0.1.
NARROW_EPSILON = 0.002
# "Well above chance" is a tenth of the way to always right, or twice chance where that is less.
CHANCE_MARGIN = 0.1
# A background recognised half as often as the object, chance apart, still holds much of it.
BACKGROUND_SHARE = 0.5
# 1 − entropy/ln C: 0 with no idea, 1 when certain. A soft mask lets a trace of the object through
# that is named rightly without being believed. On CUB it is 0.37 with the exact boxes and 0.60
# with boxes of 0.7 times their extents.
BACKGROUND_CERTAINTY = 0.5


@dataclasses.dataclass(frozen=True)
class Setup:
    """What was set, so that advice can name it. None where it is not known.

    Attributes:
        num_classes: Number of classes.
        alpha, beta, gamma: Weights of the losses.
        learning_rate: The base rate.
        head: The detector's head.
    """

    num_classes: int | None = None
    alpha: float | None = None
    beta: float | None = None
    gamma: float | None = None
    learning_rate: float | None = None
    head: str | None = None


@dataclasses.dataclass(frozen=True)
class Finding:
    """One failure mode, seen.

    Attributes:
        mode: Its name, e.g. `"dot"`.
        seen: What is seen, with numbers.
        advice: What to change.
    """

    mode: str
    seen: str
    advice: str


@dataclasses.dataclass(frozen=True)
class Course:
    """How training has gone so far.

    Attributes:
        history: Logs by epoch, oldest first; the last are those being judged.
        fresh: Whether the first of them are those of a detector's very first epoch.
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
        """Whether these are the means over a fresh head's first epoch, most of it the start."""
        return self.fresh and len(self.history) == 1

    def before(self, name, at_start=None):
        """Return the value of an epoch before; `at_start` before a fresh head's first epoch."""
        if len(self.history) > 1:
            return self.history[-2].get(name)
        return at_start if self.fresh else None

    def chance(self):
        """Return the accuracy of guessing, and one that is well above it; None if not known."""
        classes = self.setup.num_classes
        if not classes or classes < 2:
            return None
        chance = 1 / classes
        return chance, min(2 * chance, chance + CHANCE_MARGIN * (1 - chance))


def not_finite(course):
    """The loss is NaN or infinite."""
    bad = [
        name
        for name in ("loss", "area_loss", "object_loss", "background_loss", "epsilon")
        if name in course.now and not math.isfinite(course.now[name])
    ]
    if not bad:
        return None
    values = ", ".join(f"{name} {course.now[name]}" for name in bad)
    return Finding(
        "not_finite",
        f"The loss is no longer a number: {values}. The weights are lost.",
        f"Go back to a checkpoint before it, with a lower {_flag(course, 'learning_rate')}; "
        "leave out --mixed_precision if it is on; and check the images with tools.check_dataset.",
    )


def dot(course):
    """The shape shrinks to a dot."""
    area = course.now.get("area_loss")
    if area is None or area >= SMALL_AREA:
        return None
    before = course.before("area_loss", at_start=FRESH_AREA)
    shrinking = before is not None and area < SHRINKING * before
    if area >= DOT_AREA and (not shrinking or _recognised(course)):
        return None
    was = "" if before is None else f" ({_number(before)} an epoch before)"
    return Finding(
        "dot",
        f"The shape shrinks to a dot: mean area {_number(area)}{was}{_extents(course)}. "
        "The area loss outweighs what the classifier says.",
        f"Start anew with a smaller {_flag(course, 'alpha')}, say {_scaled(course, 'alpha', 0.4)}, "
        f"or a larger {_flag(course, 'beta')}. If the objects really are this small, "
        f"train on crops around them or with larger images.{_haste(course)}",
    )


def whole_image(course):
    """The shape grows to the whole image."""
    area = course.now.get("area_loss")
    if area is None or area < WHOLE_AREA:
        return None
    return Finding(
        "whole_image",
        f"The shape grows to the whole image: mean area {_number(area)}{_extents(course)}. "
        "Nothing holds it back.",
        f"Raise {_flag(course, 'alpha')}, say to {_scaled(course, 'alpha', 2.5)}, or lower "
        f"{_flag(course, 'beta')}. If it grows nevertheless, the classifier knows these images by "
        "heart and finds its class in any part of them: supervise each half of the images by a "
        "classifier fitted on the other half, or train the classifier with random masks."
        f"{_haste(course)}",
    )


def same_everywhere(course):
    """The shape is the same for every image."""
    spreads = {
        name: value / _range(name)
        for name, value in _by_coefficient(course, "spread_").items()
        if math.isfinite(value)
    }
    if not spreads or max(spreads.values()) >= SAME_SPREAD or course.warming_up:
        return None
    name, largest = max(spreads.items(), key=lambda item: item[1])
    means = {name: mean / _range(name) for name, mean in _by_coefficient(course, "mean_").items()}
    starts = {name: 0.0 if name == "angle" else 0.5 for name in means}
    if all(abs(means[name] - starts[name]) < UNMOVED for name in means):
        advice = (
            "It is still where a fresh head starts: train for more epochs, or raise "
            f"{_flag(course, 'learning_rate')} or --head_multiplier."
        )
    else:
        advice = (
            f"Start anew with a lower {_flag(course, 'learning_rate')} (a tenth), above all for "
            "the last layer: a smaller --head_multiplier."
        )
    if course.setup.head != "position":
        advice += " --head=position, which keeps where things are, is easier to teach."
    return Finding(
        "same_everywhere",
        "The shape is the same for every image: no coefficient's spread over the images is above "
        f"{_number(largest)} of its range ({name}; 0.03 and more is usual).",
        advice,
    )


def saturated(course):
    """A coefficient sits where the sigmoid is flat, so that nothing moves it any more."""
    # These say it already, and neither pulls at the centre any more.
    if dot(course) or whole_image(course):
        return None
    flat = []
    means = _by_coefficient(course, "mean_")
    spreads = _by_coefficient(course, "spread_")
    for name, mean in means.items():
        # An angle at its limit does no harm: the same axis is the other limit's too.
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
        f"Start anew with a lower {_flag(course, 'learning_rate')} or --head_multiplier.",
    )


def object_at_chance(course):
    """The classifier does no better than guessing on the object images."""
    accuracy, levels = course.now.get("object_accuracy"), course.chance()
    # In a dot there is nothing to recognise, which says nothing of the classifier.
    if accuracy is None or levels is None or accuracy >= levels[1] or dot(course):
        return None
    return Finding(
        "object_at_chance",
        f"The classifier recognises {accuracy:.1%} of the object images; guessing would be "
        f"{levels[0]:.1%}. The detector has nothing to learn from.",
        "Look at the classifier's own accuracy first: it may need more epochs, or belong to other "
        "classes. If it is good on whole images, train it with random masks, so that it knows "
        "masked ones.",
    )


def background_recognised(course):
    """At the end, the classifier still recognises the background images."""
    background, levels = course.now.get("background_accuracy"), course.chance()
    objects, loss = course.now.get("object_accuracy"), course.now.get("background_loss")
    if not course.finished or None in (background, objects, loss, levels) or dot(course):
        return None
    chance, above = levels
    certainty = 1 + loss / math.log(course.setup.num_classes)
    seldom = background < above or background - chance < BACKGROUND_SHARE * (objects - chance)
    if seldom or certainty < BACKGROUND_CERTAINTY:
        return None
    return Finding(
        "background_recognised",
        f"The background is still recognised: {background:.1%} of the background images, "
        f"{objects:.1%} of the object images, with an entropy of {1 - certainty:.0%} of the most "
        "there can be. Part of the object lies outside the shape, or the surroundings give the "
        "class away.",
        f"Raise {_flag(course, 'gamma')}, say to {_scaled(course, 'gamma', 2)}; lower "
        f"{_flag(course, 'alpha')} if the shape is too small. If the classifier has learned these "
        "very images by heart, supervise each half by a classifier fitted on the other half.",
    )


def wide_edge(course):
    """ε explodes: the mask no longer hides anything."""
    epsilon = course.now.get("epsilon")
    if epsilon is None or not WIDE_EPSILON < epsilon < math.inf:
        return None
    return Finding(
        "wide_edge",
        f"The mask's edge is washed out: ε is {_number(epsilon)} (0.1 at first), so that the "
        "object shows in the background image too.",
        f"Lower {_flag(course, 'learning_rate')} or ε's multiplier, --epsilon_multiplier, or take "
        "--generator=learned, which has no ε.",
    )


def narrow_edge(course):
    """ε vanishes: the mask is a step, which passes no gradient."""
    epsilon = course.now.get("epsilon")
    if epsilon is None or not epsilon < NARROW_EPSILON:
        return None
    return Finding(
        "narrow_edge",
        f"The mask's edge is a step: ε is {_number(epsilon)} (0.1 at first), and hardly any "
        "gradient reaches the shape.",
        f"Lower {_flag(course, 'learning_rate')} or ε's multiplier, --epsilon_multiplier, or take "
        "--generator=learned, which has no ε.",
    )


SYMPTOMS = (
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


def diagnose(course):
    """Return the `Finding`s for the last logs of a course; NaN makes all others meaningless."""
    lost = not_finite(course)
    if lost is not None:
        return [lost]
    return [finding for symptom in SYMPTOMS if (finding := symptom(course)) is not None]


def _by_coefficient(course, prefix):
    return {
        name.removeprefix(prefix): value
        for name, value in course.now.items()
        if name.startswith(prefix)
    }


def _range(coefficient):
    return math.pi if coefficient == "angle" else 1.0


def _recognised(course):
    """Whether object images are recognised more than half of the way from guessing to always."""
    accuracy, levels = course.now.get("object_accuracy"), course.chance()
    return accuracy is not None and levels is not None and accuracy > (1 + levels[0]) / 2


def _extents(course):
    width, height = course.now.get("mean_width"), course.now.get("mean_height")
    if width is None or height is None:
        return ""
    return f", mean extents {_number(width)} × {_number(height)}"


def _haste(course):
    """Return further advice where a fresh head has run to the end of its range in no time."""
    if not course.fresh or len(course.history) > 2:
        return ""
    return f" It came so soon that {_flag(course, 'learning_rate')} may be too high as well."


def _number(value):
    return f"{value:.2g}"


def _flag(course, name):
    value = getattr(course.setup, name)
    return f"--{name}" if value is None else f"--{name} ({value:g} now)"


def _scaled(course, name, factor):
    """Return a value to try: a multiple of what was set, 1 where that was nothing."""
    value = getattr(course.setup, name)
    return f"{value * factor:.2g}" if value else "1"
