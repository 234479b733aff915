"""The boxes of several methods on the same images: a row for each image, a column for each method.

It uses the `predictions.json` of evaluations, so nothing is computed again.
"""

import json
import os
from collections.abc import Mapping

import numpy as np

from gc_net.data.splits import ImageError
from gc_net.datasets import open_dataset
from gc_net.figures import drawing
from gc_net.figures.contact_sheet import classes_in_turn
from gc_net.figures.picture_files import save_picture
from gc_net.metrics import box_iou
from gc_net.settings import Settings

GALLERY_FILE = "gallery.jpg"
_COUNT = 12
_CELL = 160


def write_gallery(
    work_dir: str | os.PathLike,
    data: Settings,
    sources: Mapping[str, tuple[str, str]],
    count: int = _COUNT,
    cell: int = _CELL,
) -> str | None:
    """Write a sheet of images with each method's box in blue and true boxes in red.

    Images are those that all methods were measured on, with the classes in turn. Below each picture
    is the title of the method, with a note if its box is wrong.

    Args:
        work_dir: Folder to write to.
        data: A `DataConfig`.
        sources: {title: (path of a predictions.json, name of a method)}.
        count: How many images.
        cell: Longer side of each picture, in pixels.

    Returns:
        The path; None if there is no image that all were measured on.
    """
    found = {title: read_boxes(*source) for title, source in sources.items()}
    headers = [header for header, _ in found.values()]
    if not headers:
        return None
    split = open_dataset(data).split(headers[0]["split"])
    places = {split.file(index): index for index in range(len(split))}
    files = [file for file in places if all(file in boxes for _, boxes in found.values())]
    labels = split.labels[[places[file] for file in files]]
    pictures, captions = [], []
    for turn in classes_in_turn(labels, count):
        file = files[turn]
        try:
            image = split.read(places[file])
        except ImageError:
            continue  # deleted since the evaluation
        size = np.tile(image.shape[1::-1], 2)
        for title, (_, boxes) in found.items():
            box, truth = boxes[file]
            pictures.append(
                drawing.draw_prediction(
                    image,
                    box_rel_xyxy=box / size,
                    truth_boxes_rel_xyxy=truth / size,
                    longer_side=cell,
                )
            )
            wrong = len(truth) and box_iou(box, truth).max() <= 0.5
            captions.append(f"{title}: wrong" if wrong else title)
    if not pictures:
        return None
    path = os.path.join(work_dir, GALLERY_FILE)
    save_picture(path, drawing.grid(pictures, len(found), captions, cell=(cell, cell)))
    return path


def read_boxes(path: str | os.PathLike, method: str) -> tuple[dict, dict]:
    """Return the header of a predictions.json, and the boxes of each of its files.

    Args:
        path: The file.
        method: Name of a method that was measured there; any other is the model itself.

    Returns:
        The header, and {file: (box [4], true boxes [K, 4])} in pixels.
    """
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    found = {}
    for record in content["images"]:
        others = record.get("method_boxes_xyxy", {})
        box = np.array(others.get(method, record["box_xyxy"]), np.float64)
        truth = np.array(record["truth_boxes_xyxy"], np.float64).reshape(-1, 4)
        found[record["file"]] = (box, truth)
    return {name: value for name, value in content.items() if name != "images"}, found
