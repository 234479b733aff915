"""One creature: a bent, tapering body with limbs, a pattern, a tail fin and a head.

Its frame has the head towards +x, and a length of about 1 without the head.
"""

from collections.abc import Sequence

import numpy as np

from gc_net.datasets.creatures.canvas import CIRCLE, Sketch, plane, tint
from gc_net.datasets.creatures.heads import HEADS

# Only the head identifies the class with certainty. The body gives hints, as with birds: its
# pattern (shared by two classes), the pattern's colour and the colour of its tail fin. With this
# probability each is that of the class, and otherwise that of any class. At 0, hiding the head
# hides the class, so a localizer has no reason to cover the rest. At 1, the head is not needed.
BODY_EVIDENCE = 0.9
# Share of the class's colour in the colour of a pattern; the rest is the skin's.
_MARKING_HUE = 0.55

_SKINS = np.array(  # muted, so that the head stands out
    [(150, 142, 92), (196, 168, 118), (112, 122, 132), (140, 104, 78), (208, 196, 168),
     (92, 112, 92), (176, 134, 104), (84, 84, 96), (160, 168, 160), (188, 152, 90)], np.float64
)  # fmt: skip
_HEAD_RADIUS = 0.105
_ALONG = np.linspace(0, 1, 33)  # places on the spine, from the tail to the neck
_GIRTH = np.interp(
    _ALONG,
    (0.0, 0.12, 0.3, 0.45, 0.6, 0.75, 0.88, 1.0),
    (0.03, 0.05, 0.085, 0.122, 0.146, 0.138, 0.1, 0.07),
)


class Spine:
    """A bent line through the body, and the skin to both sides of it.

    Args:
        bend: How far the direction turns from tail to head, in radians.
        wave: How far it swings to and fro.
        girth: Relative thickness.
    """

    def __init__(self, bend: float, wave: float, girth: float):
        turn = bend * (_ALONG - 0.5) + wave * np.cos(1.6 * np.pi * _ALONG)
        self.direction = np.exp(1j * (turn - turn.mean()))  # its mean is the x axis
        middle = np.cumsum(self.direction) / len(_ALONG)
        self.middle = middle - middle[-1] / 2
        self.skin = 1j * self.direction * (_GIRTH * girth)

    def points(self, along: np.ndarray | float, across: np.ndarray | float) -> np.ndarray:
        """Return points on the skin: `along` 0 (tail) to 1, `across` −1 to 1; broadcast."""
        middle = np.interp(along, _ALONG, self.middle)
        return middle + np.interp(along, _ALONG, self.skin) * across

    def patch(
        self,
        start: np.ndarray | float,
        end: np.ndarray | float,
        left: np.ndarray | float = -1.0,
        right: np.ndarray | float = 1.0,
    ) -> np.ndarray:
        """Return outlines [K, P] of pieces of skin; each argument a number or [K, 1]."""
        along = start + (end - start) * np.linspace(0, 1, 2 + round(28 * np.max(end - start)))
        edges = self.points(along, left), self.points(along, right)[..., ::-1]
        return np.concatenate(edges, axis=-1)

    def place(self, along: float) -> tuple[complex, complex]:
        """Return the (direction, point) of the spine at one place."""
        index = round(along * (len(_ALONG) - 1))
        return self.direction[index], self.middle[index]


def _column(*values):
    return np.array(values)[:, None]


def _stripes(spine):
    across = _column(-0.62, 0.0, 0.62)
    return spine.patch(0.08, 0.96, across - 0.16, across + 0.16)


def _spots(spine):
    along = np.linspace(0.3, 0.86, 8)[:, None]
    across = np.resize((-0.5, 0.42), 8)[:, None]
    radius = 0.3 * np.abs(np.interp(along, _ALONG, spine.skin))
    return spine.points(along, across) + radius * CIRCLE


def _bands(spine):
    start = np.linspace(0.2, 0.84, 6)[:, None]
    return spine.patch(start, start + 0.055)


def _diamonds(spine):
    along = np.linspace(0.22, 0.76, 5)[:, None] + (0.0, 0.07, 0.14, 0.07)
    return spine.points(along, np.array((0.0, 0.7, 0.0, -0.7)))


def _saddle(spine):
    return spine.patch(0.46, 0.8)


PATTERNS = (_stripes, _spots, _bands, _diamonds, _saddle)


def _leg(forward, side):
    knee = (0.05 * forward, 0.165 * side)
    foot = np.array((0.05 * forward + 0.07 * np.sign(forward), 0.21 * side))
    leg = Sketch()
    leg.tube(((0.0, 0.05 * side), knee, foot), (0.036, 0.028, 0.02), 0.0)
    for spread in (-0.5, 0.3, 1.1):
        toe = foot + 0.05 * np.array((np.cos(spread), side * np.sin(spread)))
        leg.tube((foot, toe), (0.013, 0.009), 0.0)
    return leg


def _flipper(size, side):
    x = np.linspace(0, 1, 8)
    edge = x * 0.22 + 0.042j * np.sin(np.pi * np.minimum(x * 1.05 + 0.1, 1))
    blade = np.concatenate([edge, edge[::-1].conj()]) * size * np.exp(2.1j * side) + 0.05j * side
    flipper = Sketch()
    flipper.polygons(blade, 0.0)
    return flipper


_SIDES = (-1.0, 1.0)
_LIMBS = (  # pairs of limbs: (place on the spine, left and right)
    ((0.46, [_leg(-0.7, side) for side in _SIDES]), (0.82, [_leg(0.75, side) for side in _SIDES])),
    ((0.44, [_flipper(0.8, side) for side in _SIDES]), (0.8, [_flipper(1.15, s) for s in _SIDES])),
)
_HALF_FIN = plane([(0.14, 0), (0.06, 0.028), (-0.06, 0.09), (-0.13, 0.07), (-0.09, 0.0)])
_FIN = np.concatenate([_HALF_FIN, _HALF_FIN[-2:0:-1].conj()])


def grow(rng: np.random.Generator, label: int, class_names: Sequence[str]) -> tuple[Sketch, Sketch]:
    """Draw an individual of the class `class_names[label]`.

    Returns:
        The whole creature and, apart, its head: two `Sketch`es in the same frame.
    """
    chance = rng.random(12)
    others = (rng.random(3) * len(class_names)).astype(int)
    pattern, hue, tail = np.where(chance[1:4] < BODY_EVIDENCE, label, others)
    skin = _SKINS[int(chance[4] * len(_SKINS))] + 28 * (chance[5:8] - 0.5)
    bend, wave, girth, stride = rng.random(4)
    spine = Spine(1.3 * (bend - 0.5), 0.6 * (wave - 0.5), 0.85 + 0.35 * girth)

    creature = Sketch()
    for along, pair in _LIMBS[int(chance[8] * len(_LIMBS))]:
        direction, point = spine.place(along)
        for limb, swing in zip(pair, (stride - 0.5, 0.5 - stride), strict=True):
            turn = direction * np.exp(0.6j * swing)
            creature.merge(limb, turn, point, colours=tint(skin, -0.2))
    direction, point = spine.place(0.02)
    tail_colour = HEADS[class_names[tail]].colour
    fins = np.stack([_FIN, 0.6 * _FIN]) * direction + point
    creature.polygons(fins, np.stack([tail_colour, tint(tail_colour, 0.3)]))
    creature.polygons(spine.patch(0.0, 1.0), skin)
    marking = tint(skin, -0.58) if skin.mean() > 115 else tint(skin, 0.55)
    marking += _MARKING_HUE * (HEADS[class_names[hue]].colour - marking)
    creature.polygons(PATTERNS[pattern % len(PATTERNS)](spine), marking)

    head = Sketch()
    shift = round(0.3 * (chance[9] - 0.5), 2)
    direction, point = spine.place(1.0)
    head.merge(
        HEADS[class_names[label]].sketch(shift), _HEAD_RADIUS * direction, point + 0.02 * direction
    )
    creature.merge(head)
    return creature, head
