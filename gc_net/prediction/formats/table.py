"""CSV: one row an object, box and rotated rectangle in pixels.

The `folder` dataset reads boxes from the first columns. A spreadsheet would compute a name or class
that starts with =, +, - or @, so it gets a `'` before it. The dataset's reader removes it again.
"""

import csv
import math
import os

from gc_net.atomic_files import replaced_file
from gc_net.data.cells import neutralized
from gc_net.prediction.formats.base import Format, check_plain_names, pixels

COLUMNS = (
    "path", "xmin", "ymin", "xmax", "ymax", "label", "class_probability", "confidence", "no_object",
    "width", "height", "shape", "center_x", "center_y", "side_1", "side_2", "angle_degrees",
)  # fmt: skip


class Table(Format):
    """Writes `predictions.csv`, or a file of another name.

    The rotated rectangle is the smallest around the shape. Its angle is that from the x axis to its
    first side, clockwise on screen.
    """

    def __init__(self, file_name: str = "predictions.csv"):
        self.file_name = file_name

    def check(self, files):
        check_plain_names(files)

    def write(self, folder, results, class_names, root=None):
        del class_names, root
        path = os.path.join(folder, self.file_name)
        with replaced_file(path) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            for name, prediction in results:
                writer.writerows(_row(name, found) for found in prediction.objects)
        return path


def _row(name, prediction):
    height, width = prediction.size
    box = prediction.oriented_box()
    confidence = prediction.confidence
    return [
        neutralized(name),
        *map(pixels, prediction.visible_box_xyxy()),
        neutralized(prediction.class_name),
        round(prediction.class_probability, 6),
        "" if confidence is None else round(confidence, 6),
        "" if prediction.no_object is None else int(prediction.no_object),
        width,
        height,
        prediction.shape,
        *map(pixels, (*box.center, box.width, box.height)),
        round(math.degrees(box.angle), 3),
    ]
