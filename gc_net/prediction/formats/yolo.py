"""YOLO: a folder that Ultralytics trains on as it is.

`images/train`, `images/val` and the same folders below `labels` hold an image and its text file
under one name, so Ultralytics finds the label of an image. A line of such a file is
`class cx cy width height`, relative to the image.
"""

import collections
import json
import os
import shutil
from collections.abc import Iterable

from gc_net.atomic_files import replaced_file, replaced_folder
from gc_net.prediction.formats.base import FilePerImage

# Every fifth image of each class is for validation.
_VALIDATION_EVERY = 5
_JPEG_START, _JPEG_END = b"\xff\xd8", b"\xff\xd9"


class Yolo(FilePerImage):
    """Writes `yolo/`: `images`, `labels`, `classes.txt`, and `data.yaml` to train with.

    Images are links to the originals, or copies if links are impossible.
    """

    folder_name = "yolo"
    suffix = ".txt"

    def write(self, folder, results, class_names, root=None):
        path = os.path.join(folder, self.folder_name)
        os.makedirs(path, exist_ok=True)
        # Only these two are replaced, because a training may have written results beside them.
        with (
            replaced_folder(os.path.join(path, "images")) as images,
            replaced_folder(os.path.join(path, "labels")) as labels,
        ):
            splits = set()
            for split, file, prediction in _divided(results):
                splits.add(split)
                _write_text(
                    os.path.join(labels, split, self.label_file(file)),
                    self.all_text(file, prediction),
                )
                if root is not None:
                    image = os.path.join(images, split, _image_file(file))
                    _place(os.path.join(os.path.abspath(root), file), image)
        with replaced_file(os.path.join(path, "classes.txt")) as file:
            file.writelines(f"{name}\n" for name in class_names)
        with replaced_file(os.path.join(path, "data.yaml")) as file:
            file.write(_data_yaml(path, class_names, "val" if "val" in splits else "train"))
        return path

    def text(self, file, prediction):
        height, width = prediction.size
        x1, y1, x2, y2 = prediction.visible_box_xyxy()
        return line(
            prediction.class_id,
            [(x1 + x2) / 2 / width, (y1 + y2) / 2 / height, (x2 - x1) / width, (y2 - y1) / height],
        )

    def label_file(self, file):
        return super().label_file(_image_file(file))


def line(class_id: int, values: Iterable[float]) -> str:
    """Return one object's line; readers refuse values outside 0 to 1."""
    return f"{class_id} " + " ".join(f"{min(max(value, 0), 1):.6f}" for value in values) + "\n"


def _divided(results):
    """Yield ("train" or "val", file, prediction): every fifth image of a class is for validation.

    The choice for an image stays the same when others are added after it.
    """
    seen = collections.Counter()
    for file, prediction in results:
        seen[prediction.class_id] += 1
        is_val = seen[prediction.class_id] % _VALIDATION_EVERY == 0
        yield "val" if is_val else "train", file, prediction


def _image_file(file):
    # Ultralytics finds labels by changing the last folder called "images" to "labels".
    *folders, name = file.split("/")
    return "/".join([*("images_" if part == "images" else part for part in folders), name])


def _write_text(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as output:
        output.write(text)


def _place(original, path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not _would_be_rewritten(original):
        try:
            os.symlink(original, path)
            return
        except OSError:
            pass  # a file system without links, or Windows without the right to make them
    shutil.copyfile(original, path)


def _would_be_rewritten(original):
    """Return whether Ultralytics would rewrite the image, and through a link the user's own file.

    It does so with a JPEG that has data after its end.
    """
    with open(original, "rb") as file:
        if file.read(2) != _JPEG_START:
            return False
        file.seek(-2, os.SEEK_END)
        return file.read() != _JPEG_END


def _data_yaml(path, class_names, val):
    # A JSON string is a YAML string, whatever is in it.
    path, *names = (
        json.dumps(text, ensure_ascii=False) for text in (os.path.abspath(path), *class_names)
    )
    lines = [
        "# To train with Ultralytics. `path` is this folder: change it if you move the folder.",
        f"path: {path}",
        "train: images/train",
        f"val: images/{val}",
        "names:",
        *(f"  {index}: {name}" for index, name in enumerate(names)),
    ]
    return "\n".join(lines) + "\n"
