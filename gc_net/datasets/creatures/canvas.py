"""Vector drawing: polygons collected in any frame, painted anti-aliased, lit from one side."""

import cv2
import numpy as np

_FRACTION_BITS = 4  # OpenCV draws at 1/16 pixel
_SUPERSAMPLING = 2  # layers are painted at twice the size: small eyes stay round
_CIRCLE = np.stack(
    [np.cos(np.arange(18) * (np.pi / 9)), np.sin(np.arange(18) * (np.pi / 9))], axis=-1
)  # [18, 2]


def tint(colour, amount):
    """Return `colour` moved towards white (amount > 0) or towards a warm black (amount < 0)."""
    target = np.array((255.0, 252.0, 244.0) if amount > 0 else (28.0, 22.0, 26.0))
    return np.asarray(colour, np.float64) + (target - colour) * abs(amount)


def similarity(scale, angle, offset=(0.0, 0.0), mirror=False):
    """Return the 2 × 3 matrix that mirrors y, scales, turns (clockwise on screen) and moves."""
    cosine, sine = scale * np.cos(angle), scale * np.sin(angle)
    flip = -1.0 if mirror else 1.0
    return np.array([[cosine, -sine * flip, offset[0]], [sine, cosine * flip, offset[1]]])


def transform(points, matrix):
    """Apply a 2 × 3 matrix to points [..., 2]."""
    return points @ matrix[:, :2].T + matrix[:, 2]


class Sketch:
    """A list of filled polygons, later ones on top of earlier ones."""

    def __init__(self):
        self._points = []
        self._colours = []

    def polygon(self, points, colour):
        self._points.append(np.asarray(points, np.float64))
        self._colours.append(colour)

    def disc(self, centre, radius, colour):
        """Add a disc; `radius` may be a pair for an ellipse along the axes."""
        self.polygon(_CIRCLE * radius + centre, colour)

    def tube(self, path, radii, colour):
        """Add a line of varying thickness with round ends.

        Args:
            path: [N, 2] points along the middle.
            radii: [N] half thickness at each.
        """
        path = np.asarray(path, np.float64)
        radii = np.asarray(radii, np.float64)[:, None]
        along = np.gradient(path, axis=0)
        along /= np.hypot(along[:, :1], along[:, 1:])
        across = np.stack([-along[:, 1], along[:, 0]], axis=-1) * radii
        first, last = (
            path[:1] - along[:1] * radii[:1] * 0.7,
            path[-1:] + along[-1:] * radii[-1:] * 0.7,
        )
        self.polygon(np.concatenate([first, path + across, last, (path - across)[::-1]]), colour)

    def scatter(self, template, centres, sizes, angles, colours):
        """Add copies of one polygon.

        Args:
            template: [P, 2] points.
            centres: [N, 2] where each copy goes.
            sizes: [N] scale, or [N, 2] scales along the template's x and y.
            angles: [N] turns in radians, clockwise on screen.
            colours: [N, 3] RGB.
        """
        sizes = np.broadcast_to(np.reshape(sizes, (len(centres), 1, -1)), (len(centres), 1, 2))
        points = template * sizes  # [N, P, 2]
        cosines, sines = np.cos(angles)[:, None], np.sin(angles)[:, None]
        x, y = points[..., 0], points[..., 1]
        turned = np.stack([x * cosines - y * sines, x * sines + y * cosines], axis=-1)
        self._points.extend(turned + np.asarray(centres)[:, None])
        self._colours.extend(colours)

    def merge(self, other, matrix):
        """Add all of another sketch, transformed."""
        self._points.extend(transform(points, matrix) for points in other._points)
        self._colours.extend(other._colours)

    def bounds(self, matrix):
        """Return the corners (low [2], high [2]) of the box around all points, transformed."""
        points = transform(np.concatenate(self._points), matrix)
        return points.min(axis=0), points.max(axis=0)

    def paint(self, canvas, matrix):
        """Draw on `canvas`, uint8 with 1 (coverage), 3 (RGB) or 4 (RGB and coverage) channels."""
        if not self._points:
            return canvas
        points = transform(np.concatenate(self._points), matrix)
        # OpenCV puts integer coordinates at pixel centres, we put them at pixel corners.
        points = np.rint((points - 0.5) * (1 << _FRACTION_BITS)).astype(np.int32)
        if canvas.ndim == 2:
            colours = [255.0] * len(self._colours)
        else:
            colours = np.full((len(self._colours), 4), 255.0)
            colours[:, :3] = np.clip(self._colours, 0, 255)
            colours = colours.tolist()
        start = 0
        for polygon, colour in zip(self._points, colours, strict=True):
            end = start + len(polygon)
            cv2.fillPoly(canvas, [points[start:end]], colour, cv2.LINE_AA, _FRACTION_BITS)
            start = end
        return canvas


def paint_layer(sketches, matrix, height, width, channels=4):
    """Paint sketches on a transparent layer.

    Returns:
        uint8 [height, width, 4], RGB already multiplied by coverage, and coverage; or the
        coverage alone, [height, width], for `channels=1`.
    """
    shape = (height * _SUPERSAMPLING, width * _SUPERSAMPLING) + ((4,) if channels == 4 else ())
    layer = np.zeros(shape, np.uint8)
    for sketch in sketches:
        # Polygons blend with what lies below, black at first: that is multiplication by coverage.
        sketch.paint(layer, matrix * _SUPERSAMPLING)
    return cv2.resize(layer, (width, height), interpolation=cv2.INTER_AREA)


def composite(image, layer, light, relief):
    """Lay a layer over an image, with rounded edges and a soft shadow.

    Args:
        image: float32 [H, W, 3] RGB; changed in place.
        layer: uint8 [H, W, 4] from `paint_layer`.
        light: (x, y) unit vector on the screen, pointing to where the light comes from.
        relief: Width in pixels of the rounding.
    """
    layer = layer.astype(np.float32)
    coverage = layer[..., 3] * (1 / 255)
    size = max(3, round(relief)) | 1
    height = cv2.blur(cv2.blur(coverage, (size, size)), (size, size))
    slope = cv2.Sobel(height, cv2.CV_32F, 1, 0, scale=light[0])
    slope += cv2.Sobel(height, cv2.CV_32F, 0, 1, scale=light[1])

    # A shadow falls away from the light, as far as the object is high.
    shift = np.float32([[1, 0, -light[0] * relief * 0.6], [0, 1, -light[1] * relief * 0.6]])
    shadow = cv2.warpAffine(height, shift, height.shape[::-1], borderMode=cv2.BORDER_REPLICATE)
    image *= ((1 - 0.5 * shadow) * (1 - coverage))[..., None]

    shade = np.clip(1 - slope * (0.16 * relief), 0.62, 1.3) * (0.9 + 0.12 * height)
    image += layer[..., :3] * shade[..., None]
    return image
