"""A model's result for one image, in pixels of that image. Needs no TensorFlow."""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import cv2
import numpy as np

OUTLINE_POINTS = 64
_JUDGED = ("confidence", "object_probability", "background_probability", "background_entropy")


class ClassScore(NamedTuple):
    """One class and its probability."""

    id: int
    name: str
    probability: float


class Ellipse(NamedTuple):
    """An ellipse in pixels.

    Attributes:
        center: (x, y).
        axes: The longer and the shorter full axis.
        angle: Of the longer axis, in radians in (−π/2, π/2], clockwise on screen.
    """

    center: tuple[float, float]
    axes: tuple[float, float]
    angle: float

    @classmethod
    def through(cls, points: np.ndarray) -> "Ellipse":
        """Return the ellipse through points [P, 2] that lie evenly on its unit circle.

        The first point lies on an axis of the unit circle, and P is a multiple of 4.
        """
        center = points.mean(axis=0)
        half_axes = np.stack([points[0] - center, points[len(points) // 4] - center], axis=-1)
        directions, lengths, _ = np.linalg.svd(half_axes)
        x, y = directions[:, 0]
        if x < 0 or (x == 0 and y < 0):  # an axis has no direction
            x, y = -x, -y
        axes = tuple((2 * lengths).tolist())
        return cls(tuple(center.tolist()), axes, float(np.arctan2(y, x)))

    def points(self, num_points: int = OUTLINE_POINTS) -> np.ndarray:
        """Return points of the border [P, 2], clockwise on screen."""
        turn = np.arange(num_points) * (2 * np.pi / num_points)
        return _place(self.center, *_half_axes(*self.axes, self.angle), np.cos(turn), np.sin(turn))


class OrientedBox(NamedTuple):
    """A rotated rectangle in pixels; the angle is that of the side called width."""

    center: tuple[float, float]
    width: float
    height: float
    angle: float

    def corners(self) -> np.ndarray:
        """Return the corners [4, 2], clockwise on screen; the side called width comes first."""
        half_axes = _half_axes(self.width, self.height, self.angle)
        return _place(self.center, *half_axes, np.array([-1, 1, 1, -1]), np.array([-1, -1, 1, 1]))


@dataclasses.dataclass(frozen=True)
class Prediction:
    """A localized object. Coordinates are pixels of the upright image: x right, y down, edges at 0.

    A shape that reaches beyond the image, and its box, stay as they are; `visible_polygon` and
    `visible_box_xyxy` are cut to the image.

    Attributes:
        size: (height, width) of the image.
        shape: Name of the shape.
        coefficients: Output of the model, relative to the image.
        box_xyxy: Tight box of the shape.
        corners: Four points, clockwise on screen, of a parallelogram; None for other shapes. A
            rotated rectangle is learned on squashed images; on an image that is not square it is a
            parallelogram.
        ellipse: An `Ellipse`, or None for other shapes.
        classes: `ClassScore`s, the likeliest first.
        confidence: How reliable the localization is, 0 to 1, see
            `gc_net.prediction.graph.localize`; None if it was not computed.
        object_probability: Probability of the likeliest class for the inside of the shape alone;
            None if no evidence was computed.
        background_probability: Probability of the same class for the outside alone; None if no
            evidence was computed.
        background_entropy: Uncertainty of the classifier about the outside, 0 to 1; None if no
            evidence was computed.
        others: Further objects of the image, a `Prediction` each, if they were searched and found.
        outline: Points, clockwise on screen, of a shape that is neither a parallelogram nor an
            ellipse; None for those.
    """

    size: tuple[int, int]
    shape: str
    coefficients: tuple[float, ...]
    box_xyxy: tuple[float, float, float, float]
    corners: tuple[tuple[float, float], ...] | None
    ellipse: Ellipse | None
    classes: tuple[ClassScore, ...]
    confidence: float | None = None
    object_probability: float | None = None
    background_probability: float | None = None
    background_entropy: float | None = None
    outline: tuple[tuple[float, float], ...] | None = None
    others: tuple["Prediction", ...] = ()

    @classmethod
    def from_outputs(cls, outputs: Mapping[str, Any]) -> "Prediction":
        """Return the prediction in one image's outputs, of a `Localizer` or of a server.

        Args:
            outputs: As `gc_net.export.signatures.ServingModule` returns them, one row of each.
        """
        height, width = (int(side) for side in outputs["image_sizes"])
        points = np.asarray(outputs["outlines"], np.float64) * (width, height)  # [P, 2]
        # An older server, which knows only these two kinds, does not send the kind.
        default = "parallelogram" if len(points) == 4 else "ellipse"
        kind = str(outputs.get("outline_kinds", default))
        polygon = tuple(map(tuple, points.tolist()))
        scores = zip(
            outputs["class_ids"],
            outputs["class_names"],
            outputs["class_probabilities"],
            strict=True,
        )
        judged = {name: float(outputs[name]) for name in _JUDGED if name in outputs}
        boxes = np.asarray(outputs["boxes"], np.float64) * (width, height, width, height)
        return cls(
            size=(height, width),
            shape=str(outputs["shapes"]),
            coefficients=tuple(map(float, outputs["coefficients"])),
            box_xyxy=tuple(boxes.tolist()),
            corners=polygon if kind == "parallelogram" else None,
            ellipse=Ellipse.through(points) if kind == "ellipse" else None,
            classes=tuple(ClassScore(int(id_), str(name), float(p)) for id_, name, p in scores),
            outline=polygon if kind == "polygon" else None,
            **judged,
        )

    @property
    def class_id(self) -> int:
        return self.classes[0].id

    @property
    def class_name(self) -> str:
        return self.classes[0].name

    @property
    def class_probability(self) -> float:
        return self.classes[0].probability

    @property
    def no_object(self) -> bool | None:
        """Whether the evidence says that there is no object; None if no evidence was computed.

        It does under two conditions. The inside of the shape shows no more of the class than the
        outside, and the classifier gives the class less than one half for the inside alone.
        """
        if self.object_probability is None or self.background_probability is None:
            return None
        unsure = self.object_probability < 0.5
        return unsure and self.object_probability <= self.background_probability

    @property
    def objects(self) -> tuple["Prediction", ...]:
        """All found objects, this one first."""
        return (self, *self.others)

    def polygon(self, num_points: int = OUTLINE_POINTS) -> np.ndarray:
        """Return the outline [P, 2]: of an ellipse, `num_points` of it."""
        if self.ellipse is not None:
            return self.ellipse.points(num_points)
        return np.array(self.outline if self.corners is None else self.corners)

    def visible_polygon(self, num_points: int = OUTLINE_POINTS) -> np.ndarray:
        """Return the outline of the part inside the image, [P, 2].

        If a very thin shape only touches the image, it is the outline of the box, cut to the image.
        """
        height, width = self.size
        polygon = self.polygon(num_points)
        for axis, limit in ((0, width), (1, height)):
            polygon = _keep(polygon, polygon[:, axis])
            polygon = _keep(polygon, limit - polygon[:, axis])
        if not len(polygon):
            # Its centre lies in the image, or on a corner from which rounding moved it.
            x1, y1, x2, y2 = self.box_xyxy
            polygon = np.array([(x1, y1), (x2, y1), (x2, y2), (x1, y2)])
        # Cutting interpolates; rounding must not push a point back over the border.
        return np.clip(polygon, 0, [width, height])

    def visible_box_xyxy(self) -> tuple[float, float, float, float]:
        """Return the tight box of the part inside the image."""
        height, width = self.size
        x1, y1, x2, y2 = self.box_xyxy
        if min(x1, y1) >= 0 and x2 <= width and y2 <= height:
            return self.box_xyxy
        # Only the part that is cut off may have reached a side of the box.
        points = self.visible_polygon(4 * OUTLINE_POINTS)
        return (*points.min(axis=0).tolist(), *points.max(axis=0).tolist())

    def oriented_box(self) -> OrientedBox:
        """Return the smallest `OrientedBox` around the shape, also if it is not in the image."""
        if self.ellipse is not None:
            return OrientedBox(self.ellipse.center, *self.ellipse.axes, self.ellipse.angle)
        if self.corners is None:
            center, (width, height), degrees = cv2.minAreaRect(np.array(self.outline, np.float32))
            return OrientedBox(center, width, height, _half_turn(math.radians(degrees)))
        corners = np.array(self.corners)
        center = tuple(corners.mean(axis=0).tolist())
        sides = corners[1] - corners[0], corners[3] - corners[0]
        lengths = [math.hypot(*side) for side in sides]
        # The smallest rectangle around a parallelogram lies along its longer side.
        along = int(lengths[1] > lengths[0])
        if lengths[along] == 0:
            return OrientedBox(center, 0.0, 0.0, 0.0)
        direction, other = sides[along] / lengths[along], sides[1 - along]
        length = lengths[along] + abs(float(other @ direction))
        breadth = abs(float(direction[0] * other[1] - direction[1] * other[0]))
        angle = _half_turn(math.atan2(direction[1], direction[0]))
        if along == 0:
            return OrientedBox(center, length, breadth, angle)
        # Named so that the width is the side the shape's own width lies on.
        return OrientedBox(center, breadth, length, _half_turn(angle - math.pi / 2))

    def to_json(self) -> str:
        """Return one line of JSON that `from_json` reads back."""
        return json.dumps(self._fields(), ensure_ascii=False, allow_nan=False)

    def _fields(self):
        # `dataclasses.asdict` would copy each number of the outline, which takes longer than JSON.
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**fields, "others": [other._fields() for other in self.others]}

    @classmethod
    def from_json(cls, line: str | Mapping[str, Any]) -> "Prediction":
        """Return the `Prediction` in a line of `to_json`, or in the dict of that line."""
        fields = json.loads(line) if isinstance(line, str) else dict(line)
        for name in ("size", "coefficients", "box_xyxy"):
            fields[name] = tuple(fields[name])
        for name in ("corners", "outline"):  # older lines have no outline
            if fields.get(name) is not None:
                fields[name] = tuple(map(tuple, fields[name]))
        if fields["ellipse"] is not None:
            center, axes, angle = fields["ellipse"]
            fields["ellipse"] = Ellipse(tuple(center), tuple(axes), angle)
        fields["classes"] = tuple(ClassScore(*score) for score in fields["classes"])
        fields["others"] = tuple(map(cls.from_json, fields.get("others", ())))
        return cls(**fields)


def _half_axes(width, height, angle):
    cosine, sine = math.cos(angle), math.sin(angle)
    u = np.array([cosine, sine]) * (width / 2)
    return u, np.array([-sine, cosine]) * (height / 2)


def _place(center, u, v, s, t):
    return np.array(center) + s[:, None] * u + t[:, None] * v  # [P, 2]


def _half_turn(angle):
    """Bring an axis' angle into (−π/2, π/2]."""
    return angle - math.pi * math.ceil(angle / math.pi - 0.5)


def _keep(polygon, distance):
    """Cut a convex polygon by a line: keep where the signed `distance` [P] is not negative."""
    inside = distance >= 0
    if inside.all():
        return polygon
    before, previous = np.roll(distance, 1), np.roll(polygon, 1, axis=0)
    crosses = (before < 0) != (distance < 0)
    part = np.divide(before, before - distance, out=np.zeros_like(distance), where=crosses)
    cut = previous + part[:, None] * (polygon - previous)
    # Before each point comes the point where the outline crosses the line towards it.
    points = np.stack([cut, polygon], axis=1).reshape(-1, 2)  # [2·P, 2]
    return points[np.stack([crosses, inside], axis=1).ravel()]
