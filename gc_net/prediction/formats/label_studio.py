"""Label Studio: tasks with pre-annotations to correct, and the labelling set-up they belong to.

Coordinates are in percent of the image's width and height, angles in degrees, clockwise. A
rectangle turns about its first corner; x and y are that corner after the turn. For an ellipse, x
and y are the centre (the documentation of Label Studio says a corner, but its code draws a centre).
"""

import json
import math
import os
import urllib.parse
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

from gc_net.atomic_files import replaced_file
from gc_net.prediction.formats.base import Format
from gc_net.version import __version__

if TYPE_CHECKING:
    from gc_net.prediction.prediction import ClassScore, Prediction


class LabelStudio(Format):
    """Writes `label_studio.json`, to import, and `label_studio.xml`, the labelling set-up.

    Args:
        url_prefix: Text before a file's name in its URL. The default is for images that Label
            Studio serves from its LOCAL_FILES_DOCUMENT_ROOT.
    """

    def __init__(self, url_prefix: str = "/data/local-files/?d="):
        self.url_prefix = url_prefix

    def write(self, folder, results, class_names, root=None):
        del root
        path = os.path.join(folder, "label_studio.json")
        kind = "rectangle"
        with replaced_file(path) as file:
            separator = "[\n"
            for name, prediction in results:
                kind, task = self._task(name, prediction)
                file.write(separator + json.dumps(task, ensure_ascii=False))
                separator = ",\n"
            file.write("]\n" if separator == ",\n" else "[]\n")
        with replaced_file(os.path.join(folder, "label_studio.xml")) as file:
            file.write(_labelling(kind, class_names))
        return path

    def _task(self, name, prediction):
        kind = region(prediction)[0]
        return kind, {
            "data": {"image": self.url_prefix + urllib.parse.quote(name)},
            "predictions": [pre_annotation(prediction, prediction.classes[0])],
        }


def pre_annotation(
    prediction: "Prediction",
    class_score: "ClassScore",
    *,
    kind: str | None = None,
    from_name: str = "shape",
    to_name: str = "image",
    model_version: str = f"gc_net {__version__}",
) -> dict[str, Any]:
    """Return a prediction, with all objects of its image, as an entry of a task's `predictions`.

    Args:
        prediction: The `Prediction`.
        class_score: The `ClassScore` of its label; other objects have their likeliest class.
        kind: `"rectangle"` or `"ellipse"`; that of the prediction if None.
        from_name, to_name: Names of the control and of the image in the labelling set-up.
        model_version: The model's version that Label Studio shows.
    """
    height, width = prediction.size
    score = prediction.confidence
    if score is None:
        score = prediction.class_probability
    results = []
    for number, found in enumerate(prediction.objects, start=1):
        found_kind, value = region(found, kind)
        label = class_score if number == 1 else found.classes[0]
        value = {key: round(number, 4) for key, number in value.items()}
        results.append(
            {
                "id": "object" if number == 1 else f"object_{number}",
                "type": f"{found_kind}labels",
                "from_name": from_name,
                "to_name": to_name,
                "original_width": width,
                "original_height": height,
                "image_rotation": 0,
                "score": round(label.probability, 6),
                "value": {**value, f"{found_kind}labels": [label.name]},
            }
        )
    return {"model_version": model_version, "score": round(score, 6), "result": results}


def region(prediction: "Prediction", kind: str | None = None) -> tuple[str, dict[str, float]]:
    """Return `"rectangle"` or `"ellipse"` and its numbers, in percent and degrees.

    Args:
        kind: Which of the two to return; that of the shape if None.
    """
    height, width = prediction.size
    box = prediction.oriented_box()
    degrees = math.degrees(box.angle) % 360
    if (kind or ("ellipse" if prediction.ellipse else "rectangle")) == "ellipse":
        return "ellipse", {
            "x": 100 * box.center[0] / width,
            "y": 100 * box.center[1] / height,
            "radiusX": 50 * box.width / width,
            "radiusY": 50 * box.height / height,
            "rotation": degrees,
        }
    if box.angle == 0:
        x1, y1, x2, y2 = prediction.visible_box_xyxy()
    else:
        x1, y1 = box.corners()[0].tolist()
        x2, y2 = x1 + box.width, y1 + box.height
    return "rectangle", {
        "x": 100 * x1 / width,
        "y": 100 * y1 / height,
        "width": 100 * (x2 - x1) / width,
        "height": 100 * (y2 - y1) / height,
        "rotation": degrees,
    }


def _labelling(kind, class_names):
    tag = f"{kind.capitalize()}Labels"
    labels = "".join(f"    <Label value={quoteattr(name)}/>\n" for name in class_names)
    return (
        '<View>\n  <Image name="image" value="$image"/>\n'
        f'  <{tag} name="shape" toName="image">\n{labels}  </{tag}>\n</View>\n'
    )
