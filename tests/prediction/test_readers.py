"""Exported labels, read by the tools they are for."""

import dataclasses
import itertools
import json

import cv2
import numpy as np
import pytest
from PIL import Image

from gc_net.prediction import formats
from gc_net.prediction.prediction import ClassScore, Ellipse, OrientedBox, Prediction
from tests.prediction.models import CLASS_NAMES, noise
from tests.prediction.readers import YOLO_READERS, run_reader

TASKS = {"yolo": "detect", "yolo_obb": "obb"}
NAMES = [
    "plain.jpg",
    "upper case.JPG",
    "two words/ümläut 雛.png",
    "images/images/a.webp",
    "labels/b.bmp",
    "comma, quote'.tif",
    "turned by EXIF.jpg",
    "more behind its end.jpg",
    *(f"many/{number}.png" for number in range(12)),
]
TURNED = 6  # EXIF: turn a quarter clockwise


KINDS = ("rectangle", "rotated_rectangle", "rotated_ellipse")


def prediction(size, seed, kind):
    """Return a `Prediction` of a shape somewhere in an image, or across its border."""
    height, width = size
    random = np.random.default_rng(seed)
    centre = (float(random.uniform(0.1, 0.9) * width), float(random.uniform(0.1, 0.9) * height))
    extents = sorted(random.uniform(8, 30, 2).tolist(), reverse=True)
    angle = 0.0 if kind == "rectangle" else float(random.uniform(-1.5, 1.5))
    corners = ellipse = None
    if kind == "rotated_ellipse":
        ellipse = Ellipse(centre, tuple(extents), angle)
        points = ellipse.points(1000)
    else:
        points = OrientedBox(centre, *extents, angle).corners()
        corners = tuple(map(tuple, points.tolist()))
    box = (*points.min(axis=0).tolist(), *points.max(axis=0).tolist())
    class_id = seed % len(CLASS_NAMES)
    classes = (ClassScore(class_id, CLASS_NAMES[class_id], 0.75),)
    return Prediction(size, kind, (), box, corners, ellipse, classes, confidence=0.5)


def results_of(sizes, kind):
    """Return {file: `Prediction`}; every third image shows two objects."""
    results = {}
    for seed, (name, size) in enumerate(sizes.items()):
        others = (prediction(size, 100 + seed, kind),) if seed % 3 == 0 else ()
        results[name] = dataclasses.replace(prediction(size, seed, kind), others=others)
    return results


@pytest.fixture
def photos(tmp_path):
    """Images of several formats and sizes: their folder, and {file: height and width, upright}."""
    sizes = {}
    for seed, name in enumerate(NAMES):
        height, width = 60 + 5 * seed, 150 - 4 * seed
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        picture, options = Image.fromarray(noise(height, width, seed)), {}
        if "EXIF" in name:
            options["exif"] = picture.getexif()
            options["exif"][0x0112] = TURNED
            height, width = width, height
        picture.save(path, **options)
        if "behind" in name:
            path.write_bytes(path.read_bytes() + b"a second picture, as some cameras add")
        sizes[name] = (height, width)
    return tmp_path / "photos", sizes


def expected_rows(found, task):
    height, width = found.size
    for each in found.objects:
        if task == "obb":
            corners = each.oriented_box().corners() / (width, height)
            yield [each.class_id, *np.clip(corners, 0, 1).ravel()]
            continue
        x1, y1, x2, y2 = np.array(each.visible_box_xyxy()) / (width, height, width, height)
        yield [each.class_id, (x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1]


@pytest.mark.parametrize("reader", YOLO_READERS)
def test_yolo_folders_are_read_as_they_were_exported(reader, photos, tmp_path):
    root, sizes = photos
    before = {path: path.read_bytes() for path in root.rglob("*.*")}
    exported = []
    for kind, name in itertools.product(KINDS, TASKS):
        folder, results = tmp_path / kind, results_of(sizes, kind)
        folder.mkdir(exist_ok=True)
        formats.get(name).write(str(folder), results.items(), CLASS_NAMES, root)
        exported.append((TASKS[name], folder / name, results))
    read = YOLO_READERS[reader]([(task, tree / "data.yaml") for task, tree, _ in exported])
    for (task, tree, results), splits in zip(exported, read, strict=True):
        # Every fifth image of a class is for validation.
        assert {split: len(images) for split, images in splits.items()} == {"train": 17, "val": 3}
        found = {
            image.relative_to(tree / "images" / split).as_posix().replace("images_/", "images/"): (
                image,
                rows,
            )
            for split, images in splits.items()
            for image, rows in images.items()
        }
        assert set(found) == set(results)
        for file, (image, rows) in found.items():
            assert np.allclose(sorted(rows), sorted(expected_rows(results[file], task)), atol=1e-6)
            # Upright, as it is decoded for a training.
            assert cv2.imread(str(image)).shape[:2] == sizes[file]
    # Ultralytics mends some JPEGs in their place, which must not be through a link.
    assert {path: path.read_bytes() for path in root.rglob("*.*")} == before


def by_label_studio(*folders):
    return run_reader("by_label_studio.py", "label_studio_sdk", *folders)


def test_label_studio_takes_pre_annotations_and_gives_back_the_same_corners(tmp_path):
    sizes = {name: (60 + 5 * seed, 150 - 4 * seed) for seed, name in enumerate(NAMES)}
    folders = [tmp_path / kind for kind in KINDS]
    for folder in folders:
        folder.mkdir()
        results = results_of(sizes, folder.name)
        formats.get("label_studio").write(str(folder), results.items(), CLASS_NAMES)
    for folder, found in zip(folders, by_label_studio(*folders), strict=True):
        assert len(found["errors"]) == len(sizes)
        assert found["without_image"] == [] and not any(found["errors"]), found["errors"]
        if folder.name == "rotated_ellipse":
            continue  # the converter knows no ellipses
        results = results_of(sizes, folder.name)
        for result, regions in zip(results.values(), found["corners"], strict=True):
            for each, (labels, corners) in zip(result.objects, regions, strict=True):
                assert labels == [each.class_name]
                height, width = each.size
                expected = visible_corners(each)
                assert np.allclose(np.array(corners) * (width, height), expected, atol=1e-3)


def visible_corners(found):
    """Return the corners in pixels; those of an upright box are cut to the image."""
    if found.shape != "rectangle":
        return found.oriented_box().corners()
    x1, y1, x2, y2 = found.visible_box_xyxy()
    return [(x1, y1), (x2, y1), (x2, y2), (x1, y2)]


def test_label_studio_would_say_what_is_wrong(tmp_path):
    results = results_of({"a.jpg": (60, 150)}, "rectangle")
    wrong = {
        "label": lambda region: region["value"].update(rectanglelabels=["no class of the set-up"]),
        "kind": lambda region: region.update(type="ellipselabels"),
        "name": lambda region: region.update(from_name="another"),
    }
    for name, spoil in wrong.items():
        folder = tmp_path / name
        folder.mkdir()
        path = folder / "label_studio.json"
        formats.get("label_studio").write(str(folder), results.items(), CLASS_NAMES)
        tasks = json.loads(path.read_text("utf-8"))
        spoil(tasks[0]["predictions"][0]["result"][0])
        path.write_text(json.dumps(tasks), encoding="utf-8")
    found = by_label_studio(*(tmp_path / name for name in wrong))
    assert all(entry["errors"][0] for entry in found)
