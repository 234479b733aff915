import dataclasses
import json
import math
import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from pycocotools import mask as coco_masks
from pycocotools.coco import COCO

from gc_net.datasets.annotations import read_boxes
from gc_net.prediction import formats
from gc_net.prediction.prediction import ClassScore, Ellipse, OrientedBox, Prediction
from tests.prediction.models import CLASS_NAMES, encode, noise
from tests.prediction.readers import by_rules_of_yolo


def make(size, corners=None, ellipse=None, box_xyxy=None, class_id=1, **more):
    if box_xyxy is None:
        points = np.array(corners) if ellipse is None else ellipse.points(1000)
        box_xyxy = (*points.min(axis=0).tolist(), *points.max(axis=0).tolist())
    classes = (ClassScore(class_id, CLASS_NAMES[class_id], 0.75),)
    shape = "rotated_rectangle" if ellipse is None else "rotated_ellipse"
    return Prediction(size, shape, (), box_xyxy, corners, ellipse, classes, **more)


def upright(x1, y1, x2, y2):
    return ((x1, y1), (x2, y1), (x2, y2), (x1, y2))


SCORES = {"confidence": 0.4}
# 60 × 20 at 30°, inside the image.
TURNED = OrientedBox((100.0, 50.0), 60.0, 20.0, math.radians(30))
RESULTS = {
    "a, b/first one.jpg": make((100, 200), upright(20.0, 10.0, 60.0, 50.0), class_id=0, **SCORES),
    'quote"d/ümläut 雛.png': make((100, 200), tuple(map(tuple, TURNED.corners().tolist()))),
    "third.jpg": make((100, 200), upright(-30.0, 40.0, 50.0, 120.0), class_id=2, **SCORES),
}
ELLIPSES = {
    "inside.jpg": make(
        (100, 200), ellipse=Ellipse((100.0, 50.0), (60.0, 20.0), math.radians(-30)), **SCORES
    ),
    "beyond.jpg": make((100, 200), ellipse=Ellipse((0.0, 50.0), (40.0, 20.0), 0.0)),
}


def write(name, folder, results=RESULTS, **options):
    return formats.get(name, **options).write(str(folder), results.items(), CLASS_NAMES)


@pytest.mark.parametrize("name", ["coco", "voc", "csv"])
def test_our_own_readers_get_back_boxes_names_and_labels(name, tmp_path):
    path = write(name, tmp_path)
    records = {record.files[0]: record for record in read_boxes(path)}
    assert set(records) == set(RESULTS)
    for file, prediction in RESULTS.items():
        assert records[file].label == prediction.class_name
        tolerance = 0.51 if name == "voc" else 0.01  # whole pixels
        assert records[file].box_xyxy == pytest.approx(prediction.visible_box_xyxy(), abs=tolerance)
    assert records["third.jpg"].box_xyxy == (0, 40, 50, 100)


@pytest.mark.parametrize("results", [RESULTS, ELLIPSES], ids=["corners", "ellipses"])
def test_pycocotools_reads_boxes_polygons_and_categories(results, tmp_path):
    coco = COCO(write("coco", tmp_path, results))
    assert [category["name"] for category in coco.loadCats(coco.getCatIds())] == list(CLASS_NAMES)
    assert len(coco.getImgIds()) == len(results)
    for image in coco.loadImgs(coco.getImgIds()):
        prediction = results[image["file_name"]]
        assert (image["height"], image["width"]) == prediction.size
        (annotation,) = coco.loadAnns(coco.getAnnIds(imgIds=image["id"]))
        (category,) = coco.loadCats(annotation["category_id"])
        assert category["name"] == prediction.class_name
        mask = coco.annToMask(annotation)
        assert mask.shape == prediction.size
        assert mask.sum() == pytest.approx(annotation["area"], rel=0.05)
        x, y, width, height = annotation["bbox"]
        assert coco_masks.toBbox(coco.annToRLE(annotation)) == pytest.approx(
            [x, y, width, height],
            abs=1.5,  # a sharp corner fills no pixel
        )
        assert annotation["class_probability"] == 0.75
        assert annotation["score"] == (prediction.confidence or 0.75)


def test_the_part_of_an_ellipse_beyond_the_image_is_cut_off():
    polygon = ELLIPSES["beyond.jpg"].visible_polygon()
    assert polygon.min() >= 0
    assert ELLIPSES["beyond.jpg"].visible_box_xyxy() == pytest.approx((0, 40, 20, 60), abs=0.02)


def test_yolo_labels_are_relative_centres_and_sizes(tmp_path):
    write("yolo", tmp_path)
    labels = tmp_path / "yolo" / "labels" / "train"
    first = (labels / "a, b" / "first one.txt").read_text()
    assert first == "0 0.200000 0.300000 0.200000 0.400000\n"
    # −30 to 50 and 40 to 120 are cut to 0 to 50 of 200, and 40 to 100 of 100.
    third = (labels / "third.txt").read_text()
    assert third == "2 0.125000 0.700000 0.250000 0.600000\n"
    classes = tmp_path / "yolo" / "classes.txt"
    assert classes.read_text("utf-8").splitlines() == list(CLASS_NAMES)


@pytest.fixture
def photos(tmp_path):
    """Files of twelve images, two of them in folders with names that mean something in YOLO."""
    names = [f"bees/{number}.png" for number in range(10)] + ["images/images/a.png", "labels/b.png"]
    for seed, name in enumerate(names):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(noise(20, 40, seed)))
    box = upright(4.0, 5.0, 24.0, 15.0)
    return tmp_path / "photos", {name: make((20, 40), box) for name in names}


@pytest.mark.parametrize("links", [True, False])
def test_yolo_folders_train_as_they_are_and_side_by_side(links, photos, tmp_path, monkeypatch):
    root, results = photos
    if not links:
        monkeypatch.setattr(os, "symlink", lambda *_: fail(OSError("no links here")))
    (tmp_path / "out").mkdir()
    for name in ("yolo", "yolo_obb"):
        formats.get(name).write(str(tmp_path / "out"), results.items(), CLASS_NAMES, root)
    tasks = {"yolo": "detect", "yolo_obb": "obb"}
    trees = [(task, tmp_path / "out" / name / "data.yaml") for name, task in tasks.items()]
    for splits in by_rules_of_yolo(trees):
        train, val = splits["train"], splits["val"]
        assert (len(train), len(val)) == (10, 2)  # every fifth of the twelve
        for image, (row,) in {**train, **val}.items():
            assert image.is_symlink() == links
            assert row[0] == 1
        # Each image once, with its own pixels.
        originals = sorted(path.read_bytes() for path in root.rglob("*.png"))
        assert sorted(image.read_bytes() for image in (*train, *val)) == originals
    first = tmp_path / "out" / "yolo" / "labels" / "train" / "bees" / "0.txt"
    assert first.read_text() == "1 0.350000 0.500000 0.500000 0.500000\n"


def test_with_few_images_yolo_validates_on_those_it_trains_on(photos, tmp_path):
    root, results = photos
    few = list(results.items())[:2]
    path = Path(formats.get("yolo").write(str(tmp_path), few, CLASS_NAMES, root))
    (splits,) = by_rules_of_yolo([("detect", path / "data.yaml")])
    assert len(splits["val"]) == 2
    # What a training left beside them stays; labels of images that are gone do not.
    (path / "runs").mkdir()
    formats.get("yolo").write(str(tmp_path), few[:1], CLASS_NAMES, root)
    assert (path / "runs").is_dir()
    assert len(list((path / "labels").rglob("*.txt"))) == 1


def test_a_jpeg_that_ultralytics_would_save_anew_is_copied(tmp_path):
    root = tmp_path / "photos"
    root.mkdir()
    jpeg = encode(noise(20, 40), ".jpg")
    (root / "whole.jpg").write_bytes(jpeg)
    (root / "more.jpg").write_bytes(jpeg + b"something behind its end")
    results = {name: make((20, 40), upright(4, 5, 24, 15)) for name in ("whole.jpg", "more.jpg")}
    path = Path(formats.get("yolo").write(str(tmp_path), results.items(), CLASS_NAMES, root))
    images = path / "images" / "train"
    assert (images / "whole.jpg").is_symlink() and not (images / "more.jpg").is_symlink()


def fail(error):
    raise error


def test_yolo_obb_labels_are_the_corners_of_the_rotated_rectangle(tmp_path):
    write("yolo_obb", tmp_path, {**RESULTS, **ELLIPSES})
    # 60 × 20 at 30° about (100, 50): half axes (26, 15) and (−5, 8.66), of 200 × 100 pixels.
    expected = [
        [100 - 25.981 + 5, 50 - 15 - 8.660],
        [100 + 25.981 + 5, 50 + 15 - 8.660],
        [100 + 25.981 - 5, 50 + 15 + 8.660],
        [100 - 25.981 - 5, 50 - 15 + 8.660],
    ]
    labels = tmp_path / "yolo_obb" / "labels" / "train"
    text = (labels / 'quote"d' / "ümläut 雛.txt").read_text()
    assert text.split()[0] == "1"
    found = np.array(text.split()[1:], float).reshape(4, 2)
    assert np.allclose(found * (200, 100), expected, atol=1e-3)
    # The ellipse at −30° is framed by the mirror image, from its own first corner on.
    found = np.array((labels / "inside.txt").read_text().split()[1:], float)
    mirrored = [(x, 100 - y) for x, y in (expected[3], expected[2], expected[1], expected[0])]
    assert np.allclose(found.reshape(4, 2) * (200, 100), mirrored, atol=1e-3)
    # Ultralytics refuses what lies outside 0 to 1.
    for file in labels.rglob("*.txt"):
        values = np.array(file.read_text().split()[1:], float)
        assert values.min() >= 0 and values.max() <= 1


def test_label_studio_turns_rectangles_about_their_first_corner(tmp_path):
    write("label_studio", tmp_path)
    tasks = json.loads((tmp_path / "label_studio.json").read_text("utf-8"))
    assert [task["data"]["image"] for task in tasks] == [
        "/data/local-files/?d=a%2C%20b/first%20one.jpg",
        "/data/local-files/?d=quote%22d/%C3%BCml%C3%A4ut%20%E9%9B%9B.png",
        "/data/local-files/?d=third.jpg",
    ]
    values = [task["predictions"][0]["result"][0]["value"] for task in tasks]
    assert values[0] == {
        "x": 10, "y": 10, "width": 20, "height": 40, "rotation": 0,
        "rectanglelabels": [CLASS_NAMES[0]],
    }  # fmt: skip
    # The corner that was first before turning lies at (100 − 25.98 + 5, 50 − 15 − 8.66).
    turned = values[1]
    assert turned["x"] == pytest.approx(79.019 / 2, abs=1e-3)
    assert turned["y"] == pytest.approx(26.340, abs=1e-3)
    assert (turned["width"], turned["height"]) == pytest.approx((30, 20), abs=1e-3)
    assert turned["rotation"] == pytest.approx(30, abs=1e-3)
    assert values[2]["x"] == 0 and values[2]["width"] == 25  # cut to the image
    result = tasks[0]["predictions"][0]["result"][0]
    assert (result["original_width"], result["original_height"]) == (200, 100)
    assert tasks[0]["predictions"][0]["score"] == 0.4
    setup = ElementTree.parse(tmp_path / "label_studio.xml").getroot()
    assert [label.get("value") for label in setup.iter("Label")] == list(CLASS_NAMES)
    control = setup.find("RectangleLabels")
    assert (control.get("name"), control.get("toName")) == (result["from_name"], result["to_name"])
    assert result["type"] == control.tag.lower()


def test_label_studio_gives_ellipses_by_centre_and_radii(tmp_path):
    write("label_studio", tmp_path, ELLIPSES, url_prefix="https://host/")
    tasks = json.loads((tmp_path / "label_studio.json").read_text("utf-8"))
    assert tasks[0]["data"]["image"] == "https://host/inside.jpg"
    result = tasks[0]["predictions"][0]["result"][0]
    assert result["type"] == "ellipselabels"
    # Radii 30 and 10 pixels: 15 % of 200 and 10 % of 100.
    assert result["value"] == {
        "x": 50, "y": 50, "radiusX": 15, "radiusY": 10, "rotation": 330,
        "ellipselabels": [CLASS_NAMES[1]],
    }  # fmt: skip
    assert (tmp_path / "label_studio.xml").read_text().count("EllipseLabels") == 2


def test_voc_says_which_objects_are_cut_off_and_gives_one_pixel_at_least(tmp_path):
    write("voc", tmp_path, {**RESULTS, "dot.png": make((10, 10), upright(9.9, 9.9, 9.95, 10.2))})
    third = ElementTree.parse(tmp_path / "Annotations" / "third.xml").getroot()
    assert third.findtext("object/truncated") == "1"
    box = [third.findtext(f"object/bndbox/{corner}") for corner in ("xmin", "ymin", "xmax", "ymax")]
    assert box == ["1", "41", "50", "100"]  # counted from 1, the last pixel included
    dot = ElementTree.parse(tmp_path / "Annotations" / "dot.xml").getroot()
    box = [dot.findtext(f"object/bndbox/{corner}") for corner in ("xmin", "ymin", "xmax", "ymax")]
    assert box == ["10", "10", "10", "10"]


@pytest.mark.parametrize("name", formats.FORMATS.names)
def test_writing_again_leaves_nothing_of_before(name, tmp_path):
    write(name, tmp_path)
    write(name, tmp_path, {"only.jpg": RESULTS["third.jpg"]})
    written = "".join(
        f"{path.relative_to(tmp_path)} {path.read_text('utf-8') if path.is_file() else ''}"
        for path in tmp_path.rglob("*")
    )
    assert "only" in written
    assert "third" not in written and "first" not in written and "partial" not in written


@pytest.mark.parametrize("name", formats.FORMATS.names)
def test_no_results_are_written_as_none(name, tmp_path):
    path = Path(write(name, tmp_path, {}))
    if name == "coco":
        content = COCO(path)
        assert content.getImgIds() == [] and content.getAnnIds() == []
        names = [category["name"] for category in content.loadCats(content.getCatIds())]
        assert names == list(CLASS_NAMES)
    elif name == "label_studio":
        assert json.loads(path.read_text("utf-8")) == []
    elif name == "csv":
        # The header is there, which our reader insists on.
        assert len(path.read_text("utf-8").splitlines()) == 1
        assert read_boxes(path) == []
    elif name.startswith("yolo"):
        assert list((path / "labels").iterdir()) == []
        assert (path / "classes.txt").read_text("utf-8").splitlines() == list(CLASS_NAMES)
    else:
        assert path.is_dir() and list(path.iterdir()) == []


@pytest.mark.parametrize("name", ["voc", "yolo", "yolo_obb"])
def test_files_that_would_share_a_label_file_are_refused(name):
    with pytest.raises(ValueError, match=r"'x/a\.jpg' and 'x/a\.png'"):
        formats.get(name).check(["x/a.jpg", "y/a.jpg", "x/a.png"])
    formats.get("coco").check(["x/a.jpg", "x/a.png"])


@pytest.mark.parametrize("name", ["voc", "csv"])
@pytest.mark.parametrize("file", ["a\rb.jpg", "a\x01.jpg", " a.jpg", "cats/ a.jpg", "a.jpg\n"])
def test_names_that_readers_would_change_are_refused(name, file):
    with pytest.raises(ValueError, match="control characters, or spaces around it"):
        formats.get(name).check(["fine ü.jpg", file])
    formats.get("coco").check([file])


def test_a_class_name_with_control_characters_leaves_the_xml_well_formed(tmp_path):
    prediction = make((100, 200), upright(20.0, 10.0, 60.0, 50.0))
    odd = ClassScore(0, "a\x01b", 0.5)
    results = {"a.jpg": dataclasses.replace(prediction, classes=(odd,))}
    (record,) = read_boxes(write("voc", tmp_path, results))
    assert record.label == "a\ufffdb"


@pytest.mark.parametrize("name", ["coco", "voc", "csv"])
def test_several_objects_of_an_image_are_all_written(name, tmp_path):
    second = make((100, 200), upright(100.0, 20.0, 150.0, 70.0), class_id=0, confidence=0.3)
    first = dataclasses.replace(RESULTS["third.jpg"], others=(second,))
    path = write(name, tmp_path, {"third.jpg": first, "fourth.jpg": second})
    found = [(record.files[0], record.label, record.box_xyxy) for record in read_boxes(path)]
    expected = [
        ("fourth.jpg", CLASS_NAMES[0], (100, 20, 150, 70)),
        ("third.jpg", CLASS_NAMES[0], (100, 20, 150, 70)),
        ("third.jpg", CLASS_NAMES[2], (0, 40, 50, 100)),
    ]
    assert sorted(found) == sorted(expected)


def test_several_objects_are_lines_of_yolo_and_regions_of_label_studio(tmp_path):
    second = make((100, 200), upright(100.0, 20.0, 150.0, 70.0), class_id=0)
    results = {"third.jpg": dataclasses.replace(RESULTS["third.jpg"], others=(second,))}
    write("yolo", tmp_path, results)
    lines = next(tmp_path.rglob("third.txt")).read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["2", "0"]
    (task,) = json.loads(Path(write("label_studio", tmp_path, results)).read_text())
    regions = task["predictions"][0]["result"]
    assert [region["id"] for region in regions] == ["object", "object_2"]
    assert regions[1]["value"]["x"] == 50.0


def test_other_objects_survive_json():
    first = dataclasses.replace(RESULTS["third.jpg"], others=(RESULTS["a, b/first one.jpg"],))
    assert Prediction.from_json(first.to_json()) == first
