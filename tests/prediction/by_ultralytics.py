"""Reads YOLO trees with Ultralytics' own code: `python by_ultralytics.py detect=data.yaml ...`.

Prints JSON, an entry for each tree: names of classes, and the images of both splits with their
labels. It is started by `readers.py` in an environment that has Ultralytics, so it imports nothing
of gc_net.
"""

import contextlib
import json
import sys

import ultralytics.data.utils
from ultralytics.data.dataset import YOLODataset

# It would download a font to draw names with.
ultralytics.data.utils.check_font = lambda *_: None


def read(task, data_yaml):
    data = ultralytics.data.utils.check_det_dataset(data_yaml, autodownload=False)
    splits = {}
    for split in ("train", "val"):
        dataset = YOLODataset(
            img_path=data[split], data=data, task=task, imgsz=64, augment=False, cache=False
        )
        splits[split] = [
            {
                "image": label["im_file"],
                "size": label["shape"],
                "classes": label["cls"][:, 0].tolist(),
                # An oriented box has four corners, a detection centre and size.
                "values": [
                    numbers.ravel().tolist() for numbers in label["segments"] or label["bboxes"]
                ],
                # What a training is given of it, after reading and resizing.
                "objects": len(dataset[index]["bboxes"]),
            }
            for index, label in enumerate(dataset.get_labels())
        ]
    return {"names": data["names"], **splits}


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        found = [read(*argument.split("=", 1)) for argument in sys.argv[1:]]
    print(json.dumps(found))
