"""Checks tasks with Label Studio's own code: `python by_label_studio.py FOLDER ...`.

A folder holds label_studio.xml and label_studio.json. Prints JSON, an entry for each: what is wrong
with each prediction, and the corners of the rectangles once they are accepted as annotations. It is
started by `readers.py` in an environment with label-studio-sdk, so it imports nothing of gc_net.
"""

import contextlib
import json
import pathlib
import sys
import tempfile

from label_studio_sdk.converter import Converter
from label_studio_sdk.converter.utils import convert_annotation_to_yolo_obb
from label_studio_sdk.label_interface import LabelInterface


def read(folder):
    config = pathlib.Path(folder, "label_studio.xml").read_text(encoding="utf-8")
    tasks = json.loads(pathlib.Path(folder, "label_studio.json").read_text(encoding="utf-8"))
    interface = LabelInterface(config)
    interface.validate()  # raises where the labelling set-up is not in order
    return {
        "errors": [
            interface.validate_prediction(prediction, return_errors=True)
            for task in tasks
            for prediction in task["predictions"]
        ],
        "without_image": [
            task["data"]
            for task in tasks
            if any(task["data"].get(tag.value_name) is None for tag in interface.objects)
        ],
        "corners": accepted_corners(config, tasks),
    }


def accepted_corners(config, tasks):
    """Return the corners [4, 2] of each rectangle, relative, by task.

    They are what the SDK's converter makes for YOLO-OBB of tasks whose predictions were accepted.
    """
    annotations = [
        [{"id": 1, "was_cancelled": False, "result": prediction["result"]}]
        for task in tasks
        for prediction in task["predictions"]
    ]
    accepted = [
        {"id": number, "data": task["data"], "annotations": annotation}
        for number, (task, annotation) in enumerate(zip(tasks, annotations, strict=True))
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "export.json")
        path.write_text(json.dumps(accepted), encoding="utf-8")
        converter = Converter(config, folder, download_resources=False)
        return [
            [
                [region["rectanglelabels"], convert_annotation_to_yolo_obb(region)]
                for regions in item["output"].values()
                for region in regions
                if "rectanglelabels" in region
            ]
            for item in converter.iter_from_json_file(str(path))
        ]


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        found = [read(folder) for folder in sys.argv[1:]]
    print(json.dumps(found))
