"""Vector drawing: polygons collected in any frame, painted anti-aliased, lit from one side.

Points are complex numbers, x + iy with y down. So `scale · exp(i · angle) · points + offset` is a
similarity (clockwise on screen), in one NumPy operation for any number of polygons. For small
images, the number of such operations decides the drawing time.
"""

import cv2
import numpy as np

_FRACTION_BITS = 4  # OpenCV draws at 1/16 pixel
_SHADOW = 0.5  # darkest value of a shadow, relative to the light
_WHITE = np.array((255.0, 252.0, 244.0))
_BLACK = np.array((28.0, 22.0, 26.0))

CIRCLE = np.exp(1j * np.linspace(0, 2 * np.pi, 18, endpoint=False))


def plane(points: np.ndarray) -> np.ndarray:
    """Return points [..., 2] as complex numbers [...]."""
    points = np.asarray(points, np.float64)
    return points[..., 0] + 1j * points[..., 1]


def tint(colour: np.ndarray, amount: float) -> np.ndarray:
    """Return `colour` moved towards white (amount > 0) or towards a warm black (amount < 0)."""
    colour = np.asarray(colour, np.float64)
    return colour + ((_WHITE if amount > 0 else _BLACK) - colour) * abs(amount)


class Sketch:
    """A list of filled polygons, later ones on top of earlier ones."""

    def __init__(self):
        self._points = []  # complex [M] each, several polygons one after the other
        self._lengths = []  # of each polygon
        self._colours = []  # [K, 3] each, a row a polygon

    def polygons(self, points: np.ndarray, colours: np.ndarray) -> None:
        """Add polygons.

        Args:
            points: Complex [K, P], or [P] for a single one.
            colours: RGB [K, 3], or [3] for all.
        """
        points = np.atleast_2d(points)
        self._points.append(points.ravel())
        self._lengths.extend([points.shape[1]] * len(points))
        self._colours.append(np.zeros((len(points), 3)) + colours)

    def disc(self, centre: complex, radius: float, colour: np.ndarray) -> None:
        self.polygons(CIRCLE * radius + complex(*centre), colour)

    def tube(self, path: np.ndarray, radii: np.ndarray | float, colour: np.ndarray) -> None:
        """Add a line of varying thickness with round ends, `radii` wide along `path`."""
        path, radii = plane(path), np.asarray(radii)
        along = np.gradient(path)
        along /= np.abs(along)
        first = path[:1] - 0.7 * radii[0] * along[0]
        last = path[-1:] + 0.7 * radii[-1] * along[-1]
        left, right = path + 1j * along * radii, path - 1j * along * radii
        self.polygons(np.concatenate([first, left, last, right[::-1]]), colour)

    def merge(
        self,
        other: "Sketch",
        scale: complex = 1.0,
        offset: complex = 0.0,
        colours: np.ndarray | None = None,
    ) -> None:
        """Add all of another sketch, multiplied by complex `scale` and moved by `offset`.

        Args:
            colours: RGB [3] or [K, 3] to use instead of the other's.
        """
        points = np.concatenate(other._points)
        self._points.append(points * scale + offset)
        self._lengths.extend(other._lengths)
        own = np.concatenate(other._colours)
        self._colours.append(own if colours is None else np.zeros_like(own) + colours)

    def bounds(self, scale: complex = 1.0) -> tuple[complex, complex]:
        """Return the complex corners (low, high) of the box around all points · `scale`."""
        points = np.concatenate(self._points) * scale
        x, y = points.real, points.imag
        return complex(x.min(), y.min()), complex(x.max(), y.max())

    def paint(self, canvas: np.ndarray, scale: complex, offset: complex = 0.0) -> None:
        """Draw on `canvas`, uint8 with 1 (coverage), 3 (RGB) or 4 (RGB and coverage) channels."""
        unit = 1 << _FRACTION_BITS
        # OpenCV's whole numbers are pixel centres, ours are pixel corners.
        points = np.concatenate(self._points) * (scale * unit) + (offset - 0.5 - 0.5j) * unit
        points = np.rint(points.view(np.float64)).astype(np.int32).reshape(-1, 2)
        colours = np.full((len(self._lengths), 4), 255.0)
        if canvas.ndim == 3:
            np.clip(np.concatenate(self._colours), 0, 255, out=colours[:, :3])
        start = 0
        for length, colour in zip(self._lengths, colours.tolist(), strict=True):
            end = start + length
            cv2.fillPoly(canvas, [points[start:end]], colour, cv2.LINE_AA, _FRACTION_BITS)
            start = end


def paint_layer(
    sketch: Sketch,
    scale: complex,
    offset: complex,
    height: int,
    width: int,
    channels: int = 4,
    supersampling: int = 1,
) -> np.ndarray:
    """Paint a sketch on a transparent layer.

    Args:
        supersampling: Paint this many times larger and shrink, so that small eyes stay round.

    Returns:
        uint8 [height, width, 4], RGB already multiplied by coverage, and coverage; or the
        coverage alone, [height, width], for `channels=1`.
    """
    shape = (height * supersampling, width * supersampling, channels)
    layer = np.zeros(shape if channels > 1 else shape[:2], np.uint8)
    # Polygons blend with the layer, which is black at first. That multiplies them by coverage.
    sketch.paint(layer, scale * supersampling, offset * supersampling)
    if supersampling == 1:
        return layer
    return cv2.resize(layer, (width, height), interpolation=cv2.INTER_AREA)


def multiply(image: np.ndarray, field: np.ndarray, one: int = 255) -> np.ndarray:
    """Return uint8 `image` [H, W, 3] times uint8 `field` [H, W], whose value `one` means 1."""
    return cv2.multiply(image, cv2.cvtColor(field, cv2.COLOR_GRAY2RGB), scale=1 / one)


def composite(image: np.ndarray, layer: np.ndarray, light: complex, relief: float) -> np.ndarray:
    """Lay a layer over an image, with rounded edges and a soft shadow.

    All full-size arithmetic is on bytes: with floats, half of the time goes to page faults.

    Args:
        image: uint8 [H, W, 3] RGB.
        layer: uint8 [H, W, 4] from `paint_layer`.
        light: Complex of length 1, the direction on the screen that the light comes from.
        relief: Width of the rounding, in pixels.

    Returns:
        uint8 [H, W, 3].
    """
    rows, columns = layer.shape[:2]
    coverage = cv2.extractChannel(layer, 3)
    # Height, slope and shadow are smooth: half the resolution is enough.
    half = cv2.resize(coverage, ((columns + 1) // 2, (rows + 1) // 2)).astype(np.float32)
    window = (max(3, round(relief / 2)) | 1,) * 2
    height = cv2.blur(cv2.blur(half, window), window)  # 0–255
    strength = 0.08 * relief / 255
    slope = cv2.Sobel(height, cv2.CV_32F, 1, 0, scale=light.real * strength)
    slope += cv2.Sobel(height, cv2.CV_32F, 0, 1, scale=light.imag * strength)
    shade = np.clip(1 - slope, 0.62, 1.3) * (0.9 + 0.12 / 255 * height)  # up to 1.33

    fall = light * relief * 0.3  # a shadow falls away from the light
    moved = np.float32([[1, 0, -fall.real], [0, 1, -fall.imag]])
    shadow = cv2.warpAffine(height, moved, height.shape[::-1], borderMode=cv2.BORDER_REPLICATE)

    lit, shade = (
        cv2.resize(field.astype(np.uint8), (columns, rows))
        for field in (255 - _SHADOW * shadow, 190 * shade)
    )
    below = multiply(image, cv2.multiply(lit, 255 - coverage, scale=1 / 255))
    return cv2.add(below, multiply(cv2.cvtColor(layer, cv2.COLOR_RGBA2RGB), shade, one=190))
