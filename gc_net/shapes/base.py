"""The base class of shapes: from coefficients to level set, area, box, outline and mask.

The convention, for the whole package: coordinates are relative to the image, x to the right and
y down; the centre of pixel (i, j) lies at ((i + ½)/W, (j + ½)/H). Coefficients are
`cx, cy, width, height[, angle]`; width and height are full extents; the angle is in radians in
(−π/2, π/2), clockwise on screen, as OpenCV draws it.
"""

import abc
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from gc_net.shapes.frame import Frame

if TYPE_CHECKING:
    from gc_net.data import transforms

# Narrower shapes count as this wide (a twentieth of a pixel at 224). This keeps the level set and
# its gradient finite if a detector's sigmoid saturates at zero.
MIN_EXTENT = 2e-4
# Points along each side of the grid for the comparison of two shapes.
_OVERLAP_GRID = 48
# The union of two shapes takes a larger share of the box around them, unless both are very thin. It
# is also a share that 8 bits can represent.
SMALLEST_SHARE = 0.02


class Shape(abc.ABC):
    """A unit figure placed by coefficients.

    Subclasses define the figure by `figure_level`, `figure_extent` and `figure_outline`, and set
    `rotates` if they use the fifth coefficient, the angle.

    Example:
        shape = gc_net.shapes.get("rotated_ellipse")
        coefficients = detector(images)
        boxes_rel_xyxy = shape.boxes(coefficients)
    """

    name: str
    rotates = False
    # The kind of `outline`: the corners of a "parallelogram" or of any other "polygon", or points
    # of an "ellipse", which `principal_axes` describes. Predictions and label files depend on it.
    outline_kind = "polygon"
    # The authors' sampler of this shape's side ratio: deviation, and whether a coin flip picks the
    # side it applies to (`reference` in `gc_net.shapes.samplers`).
    reference_ratio_deviation = 0.9
    reference_ratio_flips = True
    # Variance of the unit figure along a full extent: 1/12 of a square, 1/16 of a disc.
    figure_variance = 1 / 12

    @property
    def coefficient_names(self) -> tuple[str, ...]:
        names = ("cx", "cy", "width", "height")
        return (*names, "angle") if self.rotates else names

    @property
    def num_coefficients(self) -> int:
        return len(self.coefficient_names)

    # The figure.

    @abc.abstractmethod
    def figure_level(self, alpha: Any, beta: Any) -> Any:
        """Return φ at offsets from the centre in units of the full extents; negative inside."""

    @abc.abstractmethod
    def figure_extent(self, u: Any, v: Any) -> Any:
        """Return how far the figure reaches along an axis, given the half axes' components."""

    @abc.abstractmethod
    def figure_outline(self, num_points: int) -> np.ndarray:
        """Return points (s, t) of the unit figure's border, clockwise on screen, as [P, 2]."""

    # Methods that follow from the figure.

    def from_unit(self, unit: Any) -> Any:
        """Map values in [0, 1] to coefficients: only the angle has another range."""
        if not self.rotates:
            return unit
        return ops.concatenate([unit[..., :4], (unit[..., 4:] - 0.5) * math.pi], axis=-1)

    def to_unit(self, coefficients: Any) -> Any:
        """Invert `from_unit`."""
        coefficients = ops.convert_to_tensor(coefficients, "float32")
        if not self.rotates:
            return coefficients
        angle = coefficients[..., 4:] / math.pi + 0.5
        return ops.concatenate([coefficients[..., :4], angle], axis=-1)

    def level_set(self, coefficients: Any, x: Any, y: Any) -> Any:
        """Evaluate the paper's φ(x, y), negative inside the shape.

        Args:
            coefficients: [B, n].
            x, y: Relative coordinates, broadcastable to [B, H, W].

        Returns:
            [B, H, W].
        """
        coefficients = ops.expand_dims(ops.convert_to_tensor(coefficients), (-3, -2))  # [B,1,1,n]
        dx = x - coefficients[..., 0]
        dy = y - coefficients[..., 1]
        if self.rotates:
            cosine, sine = ops.cos(coefficients[..., 4]), ops.sin(coefficients[..., 4])
            dx, dy = dx * cosine + dy * sine, dy * cosine - dx * sine
        alpha = dx / ops.maximum(coefficients[..., 2], MIN_EXTENT)
        beta = dy / ops.maximum(coefficients[..., 3], MIN_EXTENT)
        return self.figure_level(alpha, beta)

    def masks(self, coefficients: Any, height: int, width: int) -> Any:
        """Render exact binary masks, one test per pixel centre.

        Returns:
            [B, H, W, 1] float32 of zeros and ones.
        """
        x, y = pixel_grid(height, width)
        level = self.level_set(coefficients, x, y)
        return ops.cast(level <= 0, "float32")[..., None]

    def area(self, coefficients: Any) -> Any:
        """Return the paper's area term a·b: width times height. Eq. (area_loss)."""
        return coefficients[..., 2] * coefficients[..., 3]

    def frame(self, coefficients: Any) -> Frame:
        """Return the centre and half axes, in relative coordinates."""
        coefficients = ops.convert_to_tensor(coefficients)
        half_width, half_height = coefficients[..., 2] / 2, coefficients[..., 3] / 2
        if self.rotates:
            cosine, sine = ops.cos(coefficients[..., 4]), ops.sin(coefficients[..., 4])
        else:
            cosine, sine = ops.ones_like(half_width), ops.zeros_like(half_width)
        return Frame(
            center=coefficients[..., :2],
            u=ops.stack([half_width * cosine, half_width * sine], axis=-1),
            v=ops.stack([-half_height * sine, half_height * cosine], axis=-1),
        )

    def frame_boxes(self, frame: Frame) -> Any:
        """Return the tight box of the figure placed by `frame`, xyxy in the frame's units."""
        extent = self.figure_extent(frame.u, frame.v)
        return ops.concatenate([frame.center - extent, frame.center + extent], axis=-1)

    def frame_outline(self, frame: Frame, num_points: int = 64) -> Any:
        """Return border points [..., P, 2] of the figure placed by `frame`, clockwise on screen."""
        points = ops.convert_to_tensor(self.figure_outline(num_points), frame.center.dtype)
        s, t = points[:, :1], points[:, 1:]  # [P, 1]
        return (
            frame.center[..., None, :] + s * frame.u[..., None, :] + t * frame.v[..., None, :]
        )  # [..., P, 2]

    def boxes(self, coefficients: Any) -> Any:
        """Return the tight boxes in closed form, relative xyxy [..., 4], not clipped."""
        return self.frame_boxes(self.frame(coefficients))

    def outline(self, coefficients: Any, num_points: int = 64) -> Any:
        """Return border points [..., P, 2] in relative coordinates, or the corners of a polygon."""
        return self.frame_outline(self.frame(coefficients), num_points)

    def fit(self, mask: np.ndarray, upright: bool = False) -> np.ndarray:
        """Return the coefficients [n] of the shape that describes a binary mask [H, W].

        An upright shape takes the mask's box. A rotating shape takes the mask's centre, axes and
        spread, i.e. its first and second moments. The mask must not be empty.

        Args:
            upright: Whether a rotating shape also takes the box, with an angle of zero.
        """
        rows, columns = np.nonzero(mask)
        height, width = mask.shape
        if upright or not self.rotates:
            left, right = columns.min() / width, (columns.max() + 1) / width
            top, bottom = rows.min() / height, (rows.max() + 1) / height
            box = [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
            return np.array([*box, 0.0][: self.num_coefficients], "float32")
        x, y = (columns + 0.5) / width, (rows + 0.5) / height
        # A pixel is a square, whose own spread counts too.
        covariance = np.cov(x, y, bias=True) + np.diag([1 / width**2, 1 / height**2]) / 12
        longer, shorter, angle = _axes(covariance / self.figure_variance)
        return np.array([x.mean(), y.mean(), longer, shorter, angle], "float32")

    @staticmethod
    def out_of_window(
        coefficients: Any, window: "transforms.Window", resize_size: int, image_size: int
    ) -> Any:
        """Convert coefficients [..., n] from a window to the squashed image.

        Args:
            window: (top, left, flip) without a flip, see `gc_net.data.transforms.Window`; top and
                left may be [N], with a window for each of N shapes.
            resize_size, image_size: Sides of the squashed image and of the window.
        """
        top, left = window[:2]
        part = image_size / resize_size
        start = ops.cast(ops.stack([left, top], axis=-1), "float32") / resize_size
        center = start + part * coefficients[..., :2]
        return ops.concatenate(
            [center, part * coefficients[..., 2:4], coefficients[..., 4:]], axis=-1
        )

    @staticmethod
    def in_windows(coefficients: np.ndarray, windows: np.ndarray, resize_size: int) -> np.ndarray:
        """Convert coefficients relative to squashed images to ones relative to a window of each.

        Args:
            coefficients: [N, n] relative to the squashed images.
            windows: [N, 5] rows of (top, left, flip, height, width) in pixels, see
                `gc_net.data.transforms.random_windows`.
            resize_size: Side of the squashed images.

        Returns:
            [N, n] relative to the windows; a shape may reach beyond its window. A rotated rectangle
            that is stretched is no rectangle: it becomes the rectangle with its centre and spread.
        """
        top, left, flip, height, width = np.asarray(windows, np.float32).T
        size = np.stack([width, height], axis=-1)  # [N, 2]
        placed = np.array(coefficients, np.float32)
        placed[:, :2] = (placed[:, :2] * resize_size - np.stack([left, top], axis=-1)) / size
        scale, extents = resize_size / size, placed[:, 2:4].copy()
        placed[:, 2:4] *= scale
        if placed.shape[1] > 4:
            cosine, sine = np.cos(placed[:, 4]), np.sin(placed[:, 4])
            turned = np.array([[cosine, -sine], [sine, cosine]]).transpose(2, 0, 1)  # [N, 2, 2]
            axes = scale[:, :, None] * turned * extents[:, None, :]
            stretched = (width != height) & (placed[:, 4] != 0) & np.isfinite(placed[:, 0])
            fitted = _axes(axes[stretched] @ axes[stretched].transpose(0, 2, 1))
            placed[stretched, 2:5] = np.stack(fitted, axis=-1)
        return np.where(flip[:, None] > 0, Shape.mirrored(placed), placed)

    @staticmethod
    def mirrored(coefficients: Any) -> Any:
        """Return the coefficients [..., n] of the shapes in the mirrored image, left to right.

        Arrays stay arrays and tensors tensors.
        """
        num_coefficients = coefficients.shape[-1]
        sign = np.float32([-1, 1, 1, 1, -1][:num_coefficients])
        return coefficients * sign + np.float32([1, 0, 0, 0, 0][:num_coefficients])

    def iou(self, coefficients_a: Any, coefficients_b: Any) -> Any:
        """Return the IoU [B] of shapes [B, n], pair by pair; may run inside a graph.

        They are compared on a grid over the box around the two, so the precision is the same for
        small and large shapes.
        """
        boxes_a, boxes_b = self.boxes(coefficients_a), self.boxes(coefficients_b)
        low = ops.minimum(boxes_a[..., :2], boxes_b[..., :2])[:, None, None]  # [B, 1, 1, 2]
        high = ops.maximum(boxes_a[..., 2:], boxes_b[..., 2:])[:, None, None]
        x, y = pixel_grid(_OVERLAP_GRID, _OVERLAP_GRID)
        x = low[..., 0] + x * (high - low)[..., 0]
        y = low[..., 1] + y * (high - low)[..., 1]
        in_a, in_b = (
            ops.cast(self.level_set(coefficients, x, y) <= 0, "float32")
            for coefficients in (coefficients_a, coefficients_b)
        )
        both, either = (
            ops.mean(in_a * in_b, axis=(-2, -1)),
            ops.mean(ops.maximum(in_a, in_b), (-2, -1)),
        )
        return both / ops.maximum(either, SMALLEST_SHARE)

    def mean(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the mean [..., n] over the first axis of shapes [W, ..., n].

        For rotating shapes, the spread of the figure is averaged as a matrix. Angles alone have no
        mean, because a shape has several sets of coefficients.
        """
        coefficients = np.asarray(coefficients, np.float64)
        mean = coefficients.mean(axis=0)
        if self.rotates:
            frame = self.frame(coefficients)
            half_axes = np.stack([np.asarray(frame.u), np.asarray(frame.v)], axis=-1)
            spread = (half_axes @ np.swapaxes(half_axes, -1, -2)).mean(axis=0)  # [..., 2, 2]
            mean[..., 2], mean[..., 3], mean[..., 4] = _axes(4 * spread)
        return mean.astype(np.float32)

    def sample(self, num_samples: int, seed: Any, sampler: str = "full") -> Any:
        """Draw coefficients [N, n] for training a learned generator.

        Args:
            seed: Two integers; the same seed gives the same coefficients.
            sampler: `"full"` for all shapes that a detector can ask for, or `"reference"` for the
                authors' narrower range.
        """
        from gc_net.shapes.samplers import SAMPLERS

        return SAMPLERS.get(sampler)(self, num_samples, seed)


def _axes(squares):
    """Return longer and shorter full extent and angle of matrices [..., 2, 2] of their squares."""
    values, axes = np.linalg.eigh(squares)  # the longer axis last
    extents = np.sqrt(np.maximum(values, 0))
    angle = np.arctan2(axes[..., 1, 1], axes[..., 0, 1])
    # An axis has no direction, so the angle is brought into the half turn of coefficients.
    return extents[..., 1], extents[..., 0], angle - math.pi * np.ceil(angle / math.pi - 0.5)


GRIDS = ("centers", "corners")


def pixel_grid(height: int, width: int, grid: str = "centers") -> tuple[Any, Any]:
    """Return relative x [1, 1, W] and y [1, H, 1] of every pixel.

    Args:
        grid: `"centers"`, pixel i at (i + ½)/N, or `"corners"`, pixel i at i/(N − 1), as in the
            authors' code, which is half a pixel off at the border.
    """
    if grid == "centers":
        x = (ops.arange(width, dtype="float32") + 0.5) / width
        y = (ops.arange(height, dtype="float32") + 0.5) / height
    elif grid == "corners":
        x = ops.arange(width, dtype="float32") / (width - 1)
        y = ops.arange(height, dtype="float32") / (height - 1)
    else:
        raise ValueError(f'`grid` must be "centers" or "corners". Received: grid={grid!r}')
    return x[None, None, :], y[None, :, None]
