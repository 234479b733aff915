"""YOLO: one text file an image, `class cx cy width height`, relative to the image."""

import json
import os
from collections.abc import Iterable

from gc_net.atomic_files import replaced_file
from gc_net.prediction.formats.base import FilePerImage


class Yolo(FilePerImage):
    """Writes `labels/NAME.txt`, and the classes as `classes.txt` and as `names` in `data.yaml`."""

    folder_name = "labels"
    suffix = ".txt"

    def text(self, file, prediction):
        height, width = prediction.size
        x1, y1, x2, y2 = prediction.visible_box_xyxy()
        return line(
            prediction.class_id,
            [(x1 + x2) / 2 / width, (y1 + y2) / 2 / height, (x2 - x1) / width, (y2 - y1) / height],
        )

    def write_classes(self, folder, class_names):
        with replaced_file(os.path.join(folder, "classes.txt")) as file:
            file.writelines(f"{name}\n" for name in class_names)
        with replaced_file(os.path.join(folder, "data.yaml")) as file:
            file.write("names:\n")
            # A JSON string is a YAML string, whatever is in it.
            for index, name in enumerate(class_names):
                file.write(f"  {index}: {json.dumps(name, ensure_ascii=False)}\n")


def line(class_id: int, values: Iterable[float]) -> str:
    """Return one object's line; readers refuse values outside 0 to 1."""
    return f"{class_id} " + " ".join(f"{min(max(value, 0), 1):.6f}" for value in values) + "\n"
