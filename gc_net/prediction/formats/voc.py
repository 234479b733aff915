"""Pascal VOC: an XML file for each image.

VOC counts pixels from 1 and includes the last one: the box of a whole image is 1, 1, width, height.
"""

import os
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from gc_net.prediction.formats.base import UNPRINTABLE, FilePerImage, check_plain_names

if TYPE_CHECKING:
    from gc_net.prediction.prediction import Prediction


class Voc(FilePerImage):
    """Writes `Annotations/NAME.xml`, boxes rounded to whole pixels."""

    folder_name = "Annotations"
    suffix = ".xml"

    def text(self, file, prediction):
        return self.all_text(file, prediction)

    def all_text(self, file, prediction):
        folder, name = os.path.split(file)
        height, width = prediction.size
        root = ElementTree.Element("annotation")
        _add(root, "folder", folder)
        _add(root, "filename", name)
        size = ElementTree.SubElement(root, "size")
        for tag, value in (("width", width), ("height", height), ("depth", 3)):
            _add(size, tag, value)
        _add(root, "segmented", 0)
        for found in prediction.objects:
            _add_object(root, found)
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="unicode") + "\n"

    def check(self, files):
        super().check(files)
        check_plain_names(files)


def _add_object(root, prediction):
    height, width = prediction.size
    thing = ElementTree.SubElement(root, "object")
    _add(thing, "name", prediction.class_name)
    _add(thing, "pose", "Unspecified")
    x1, y1, x2, y2 = prediction.box_xyxy
    _add(thing, "truncated", int(min(x1, y1) < 0 or x2 > width or y2 > height))
    _add(thing, "difficult", 0)
    box = ElementTree.SubElement(thing, "bndbox")
    for tag, value in zip(("xmin", "ymin", "xmax", "ymax"), whole_pixels(prediction), strict=True):
        _add(box, tag, value)


def whole_pixels(prediction: "Prediction") -> tuple[int, int, int, int]:
    """Return first and last pixel of the box, counted from 1: x, y, x, y; at least one pixel."""
    height, width = prediction.size
    x1, y1, x2, y2 = (round(value) for value in prediction.visible_box_xyxy())
    x1, y1 = min(x1, width - 1), min(y1, height - 1)
    return x1 + 1, y1 + 1, max(x2, x1 + 1), max(y2, y1 + 1)


def _add(parent, tag, value):
    ElementTree.SubElement(parent, tag).text = UNPRINTABLE.sub("\ufffd", str(value))
