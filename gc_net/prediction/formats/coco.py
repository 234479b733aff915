"""COCO JSON: boxes [x, y, width, height] and outlines as polygons.

`score` is the confidence of the localization, by which tools rank boxes. `class_probability` is
that of the class. Without confidences, `score` is the class probability.
"""

import itertools
import json
import os

import numpy as np

from gc_net.atomic_files import replaced_file
from gc_net.prediction.formats.base import Format, pixels


class Coco(Format):
    """Writes `coco.json`. Ids count from 1, as COCO's do."""

    def write(self, folder, results, class_names, root=None):
        del root
        path = os.path.join(folder, "coco.json")
        categories = [
            {"id": number, "name": name} for number, name in enumerate(class_names, start=1)
        ]
        with replaced_file(path) as file:
            file.write('{"info": {"description": "Predictions of gc_net"},\n"licenses": [],\n')
            file.write(f'"categories": {_dumps(categories)},\n"images": [')
            _write_list(file, (_image(*item) for item in enumerate(results, start=1)))
            file.write('],\n"annotations": [')
            _write_list(file, _annotations(results))
            file.write("]}\n")
        return path


def _image(number, result):
    file, prediction = result
    height, width = prediction.size
    return {"id": number, "file_name": file, "width": width, "height": height}


def _annotations(results):
    """Yield one annotation for each object of each image."""
    number = itertools.count(1)
    for image_id, (_, prediction) in enumerate(results, start=1):
        for found in prediction.objects:
            yield _annotation(next(number), image_id, found)


def _annotation(number, image_id, prediction):
    probability, confidence = prediction.class_probability, prediction.confidence
    x1, y1, x2, y2 = prediction.visible_box_xyxy()
    polygon = prediction.visible_polygon()
    return {
        "id": number,
        "image_id": image_id,
        "category_id": prediction.class_id + 1,
        # At least a hundredth of a pixel, because readers refuse a box without area.
        "bbox": [pixels(x1), pixels(y1), max(pixels(x2 - x1), 0.01), max(pixels(y2 - y1), 0.01)],
        "segmentation": [[pixels(value) for value in polygon.ravel()]],
        "area": pixels(_area(polygon)),
        "iscrowd": 0,
        "score": round(probability if confidence is None else confidence, 6),
        "class_probability": round(probability, 6),
    }


def _area(polygon):
    x, y = polygon[:, 0], polygon[:, 1]
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2


def _write_list(file, entries):
    separator = "\n"
    for entry in entries:
        file.write(separator + _dumps(entry))
        separator = ",\n"


def _dumps(value):
    return json.dumps(value, ensure_ascii=False)
