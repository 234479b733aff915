"""One creature: a bent, tapering body with limbs, a pattern, a tail fin and a head."""

import dataclasses

import numpy as np

from gc_net.datasets.creatures.canvas import Sketch, similarity, tint
from gc_net.datasets.creatures.heads import HEADS

# The head alone names the class. The body hints at it: its pattern, shared by two classes, and
# the colour of its tail fin are the class's own with this probability each, else any class's.
# At 0 the smallest region that hides the class is the head, and a localizer that hides the class
# has no reason to cover the rest; at 1 a head is not needed. Real birds are in between.
BODY_EVIDENCE = 0.6

_SKINS = (  # muted, so that the head stands out
    (150, 142, 92), (196, 168, 118), (112, 122, 132), (140, 104, 78), (208, 196, 168),
    (92, 112, 92), (176, 134, 104), (84, 84, 96), (160, 168, 160), (188, 152, 90),
)  # fmt: skip
_HEAD_RADIUS = 0.1  # all lengths relative to the length of the body with its tail
_PROFILE_AT = (0.0, 0.12, 0.3, 0.45, 0.6, 0.75, 0.88, 1.0)
_PROFILE = (0.012, 0.022, 0.042, 0.085, 0.118, 0.112, 0.078, 0.06)


@dataclasses.dataclass(frozen=True)
class Creature:
    """Sketches in one frame: head towards +x, length about 1; the head lies over the body."""

    body: Sketch
    head: Sketch

    def bounds(self, matrix):
        lows, highs = zip(self.body.bounds(matrix), self.head.bounds(matrix), strict=True)
        return np.minimum(*lows), np.maximum(*highs)


class _Spine:
    """Maps places on the body to the plane: `along` from 0 (tail) to 1, `across` from −1 to 1."""

    def __init__(self, bend, wave, girth):
        self.along = np.linspace(0, 1, 33)
        self.heading = bend * (self.along - 0.5) + wave * np.cos(np.pi * 1.6 * self.along)
        self.heading -= self.heading.mean()  # the mean direction is the frame's x axis
        steps = np.stack([np.cos(self.heading), np.sin(self.heading)], axis=-1) / 33
        self.middle = np.cumsum(steps, axis=0) - steps.sum(axis=0) / 2
        self.width = np.interp(self.along, _PROFILE_AT, _PROFILE) * girth

    def points(self, along, across):
        along = np.asarray(along, np.float64)
        heading = np.interp(along, self.along, self.heading)
        offset = np.interp(along, self.along, self.width) * across
        x = np.interp(along, self.along, self.middle[:, 0]) - np.sin(heading) * offset
        y = np.interp(along, self.along, self.middle[:, 1]) + np.cos(heading) * offset
        return np.stack([x, y], axis=-1)

    def patch(self, start, end, left=-1.0, right=1.0):
        """Return the outline of a piece of skin."""
        along = np.linspace(start, end, 2 + round(28 * (end - start)))
        return np.concatenate([self.points(along, left), self.points(along, right)[::-1]])

    def matrix(self, along, scale):
        """Return the transform that puts a sketch on the spine, its x axis along it."""
        heading = np.interp(along, self.along, self.heading)
        return similarity(scale, heading, self.points(along, 0.0))


def _stripes(sketch, spine, colour, rng):
    for across in (-0.62, 0.0, 0.62):
        sketch.polygon(spine.patch(0.08, 0.96, across - 0.16, across + 0.16), colour)


def _spots(sketch, spine, colour, rng):
    places = np.linspace(0.3, 0.86, 8)
    jitter = rng.uniform(-0.12, 0.12, 8)
    centres = spine.points(places, np.resize((-0.48, 0.42), 8) + jitter)
    for centre, place in zip(centres, places, strict=True):
        radius = 0.3 * np.interp(place, spine.along, spine.width)
        sketch.disc(centre, radius, colour)


def _bands(sketch, spine, colour, rng):
    for start in np.linspace(0.2, 0.84, 6):
        sketch.polygon(spine.patch(start, start + 0.055), colour)


def _diamonds(sketch, spine, colour, rng):
    for start in np.linspace(0.22, 0.76, 5):
        along = start + np.array((0.0, 0.07, 0.14, 0.07))
        sketch.polygon(spine.points(along, np.array((0.0, 0.7, 0.0, -0.7))), colour)


def _saddle(sketch, spine, colour, rng):
    sketch.polygon(spine.patch(0.46, 0.8), colour)
    sketch.polygon(spine.patch(0.5, 0.76), tint(colour, 0.35))


PATTERNS = (_stripes, _spots, _bands, _diamonds, _saddle)


def _legs(sketch, spine, colour, stride):
    for along, forward in ((0.46, -0.7), (0.82, 0.75)):
        for side in (-1.0, 1.0):
            swing = forward + 0.35 * stride * side
            hip, knee = (0.0, 0.05 * side), (0.05 * swing, 0.17 * side)
            foot = (0.05 * swing + 0.07 * np.sign(forward), 0.225 * side)
            limb = Sketch()
            limb.tube((hip, knee, foot), (0.036, 0.028, 0.02), colour)
            for spread in (-0.5, 0.3, 1.1):
                toe = np.array(foot) + 0.05 * np.array((np.cos(spread), side * np.sin(spread)))
                limb.tube((foot, toe), (0.013, 0.009), tint(colour, -0.2))
            sketch.merge(limb, spine.matrix(along, 1.0))


def _flippers(sketch, spine, colour, stride):
    x = np.linspace(0, 1, 8)
    edge = np.stack([x * 0.22, 0.042 * np.sin(np.pi * np.minimum(x * 1.05 + 0.1, 1))], axis=-1)
    blade = np.concatenate([edge, edge[::-1] * (1, -1)])
    for along, size in ((0.44, 0.75), (0.8, 1.1)):
        for side in (-1.0, 1.0):
            angle = side * (2.1 + 0.3 * stride * side)
            limb = Sketch()
            centre = np.array([(0.0, 0.03 * side)])
            for scale, shade in ((size, colour), (size * 0.72, tint(colour, 0.25))):
                limb.scatter(blade, centre, [scale], np.array([angle]), [shade])
            sketch.merge(limb, spine.matrix(along, 1.0))


_LIMBS = (_legs, _flippers)


def _tail_fin(sketch, spine, colour):
    fin = np.array(
        [(0.14, 0), (0.06, 0.028), (-0.06, 0.09), (-0.13, 0.07), (-0.09, 0.0)]
    )  # fmt: skip
    fin = np.concatenate([fin, fin[-2:0:-1] * (1, -1)])
    limb = Sketch()
    limb.polygon(fin, colour)
    limb.polygon(fin * (0.62, 0.55), tint(colour, 0.3))
    sketch.merge(limb, spine.matrix(0.02, 1.0))


def grow(rng, label, class_names):
    """Return a `Creature` of the class `class_names[label]`, an individual drawn from `rng`."""
    chance = rng.random(8)
    pattern = label if chance[0] < BODY_EVIDENCE else rng.integers(len(class_names))
    tail = label if chance[1] < BODY_EVIDENCE else rng.integers(len(class_names))
    skin = np.array(_SKINS[int(chance[2] * len(_SKINS))]) + rng.uniform(-14, 14, 3)
    spine = _Spine(
        bend=1.5 * (chance[3] - 0.5), wave=0.8 * (chance[4] - 0.5), girth=0.85 + 0.35 * chance[5]
    )

    body = Sketch()
    _LIMBS[int(chance[6] * len(_LIMBS))](body, spine, tint(skin, -0.18), 2 * chance[7] - 1)
    _tail_fin(body, spine, HEADS[class_names[tail]].colour)
    body.polygon(spine.patch(0.0, 1.0), skin)
    marking = tint(skin, -0.58) if skin.mean() > 115 else tint(skin, 0.55)
    PATTERNS[pattern % len(PATTERNS)](body, spine, marking, rng)

    head = Sketch()
    sketch = HEADS[class_names[label]].sketch(shift=rng.uniform(-0.15, 0.15))
    head.merge(sketch, spine.matrix(1.0, _HEAD_RADIUS))
    return Creature(body, head)
