"""The rotated rectangle: `cx, cy, width, height, angle`."""

from gc_net.shapes.rectangle import Rectangle


class RotatedRectangle(Rectangle):
    """A rectangle turned about its centre; its box is that of its four corners."""

    name = "rotated_rectangle"
    rotates = True
    reference_ratio_deviation = 0.9
    reference_ratio_flips = True
