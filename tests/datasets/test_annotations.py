import json
import math
from pathlib import Path

import numpy as np
import pytest

from gc_net.data.splits import DataError
from gc_net.datasets.annotations import FORMATS, read_boxes
from gc_net.datasets.annotations.annotation import Record
from gc_net.datasets.annotations.match import match_images
from gc_net.prediction import formats
from gc_net.prediction.prediction import ClassScore, Ellipse, OrientedBox, Prediction
from tests.datasets.samples import write_text

# One image of 16 × 12 pixels, called a.jpg: all of it, and its pixel in column 2, row 3.
WHOLE, PIXEL = (0, 0, 16, 12), (2, 3, 3, 4)


def coco(**changes):
    content = {
        "images": [{"id": 7, "file_name": "a.jpg", "width": 16, "height": 12}],
        "categories": [{"id": 3, "name": "cat"}],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 3, "bbox": [0, 0, 16, 12]},
            {"id": 2, "image_id": 7, "category_id": 3, "bbox": [2, 3, 1, 1]},
        ],
    }
    return json.dumps(content | changes)


def voc(*boxes, filename="<filename>a.jpg</filename>"):
    objects = "".join(
        f"<object><name>cat</name><bndbox><xmin>{x1}</xmin><ymin>{y1}</ymin><xmax>{x2}</xmax>"
        f"<ymax>{y2}</ymax></bndbox></object>"
        for x1, y1, x2, y2 in boxes
    )
    return f"<annotation>{filename}{objects}</annotation>"


def label_studio(*values, file="/data/local-files/?d=a.jpg"):
    """Return an export with one task of an image of 16 × 12 pixels, boxes in percent."""
    results = [
        {
            "type": "rectanglelabels",
            "original_width": 16,
            "original_height": 12,
            "value": {
                **dict(zip(("x", "y", "width", "height"), value, strict=True)),
                "rotation": 0,
                "rectanglelabels": ["cat"],
            },
        }
        for value in values
    ]
    return json.dumps([{"data": {"image": file}, "annotations": [{"result": results}]}])


def write_format(folder, name):
    if name == "label_studio":
        text = label_studio((0, 0, 100, 100), (12.5, 25, 6.25, 100 / 12))
        return write_text(folder / "tasks.json", text)
    if name == "coco":
        return write_text(folder / "boxes.json", coco())
    if name == "voc":
        write_text(folder / "xml" / "a.xml", voc((1, 1, 16, 12), (3, 4, 3, 4)))
        return folder / "xml"
    return write_text(
        folder / "boxes.csv",
        "path,xmin,ymin,xmax,ymax,label\na.jpg,0,0,16,12,cat\na.jpg,2,3,3,4,cat\n",
    )


def boxes(path):
    return [record.box_xyxy for record in read_boxes(path)]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_corners(tmp_path, name):
    records = read_boxes(write_format(tmp_path, name))
    assert [record.files for record in records] == [("a.jpg",), ("a.jpg",)]
    assert [record.label for record in records] == ["cat", "cat"]
    boxes_xyxy = [record.box_xyxy for record in records]
    np.testing.assert_allclose(boxes_xyxy, [WHOLE, PIXEL], rtol=1e-12)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_says_where_a_box_came_from(tmp_path, name):
    path = write_format(tmp_path, name)
    places = {"coco": "annotations[1]", "voc": "a.xml, object 2", "csv": "line 3"}
    places["label_studio"] = "task 1, result 2"
    assert read_boxes(path)[1].place.startswith(str(path))
    assert read_boxes(path)[1].place.endswith(places[name])


@pytest.mark.parametrize(
    "name, text",
    [
        ("x.json", ""),
        ("x.json", "[" * 100_000),
        ("x.csv", ""),
        ("x.xml", ""),
        ("x.xml", "<a><b></a>"),
    ],
)
def test_files_of_another_kind_are_errors(tmp_path, name, text):
    with pytest.raises(DataError, match=name):
        read_boxes(write_text(tmp_path / name, text))


@pytest.mark.parametrize("name", ["x.json", "x.csv", "x.xml"])
def test_binary_files_are_errors(tmp_path, name):
    (tmp_path / name).write_bytes(bytes(range(256)))
    with pytest.raises(DataError, match=name):
        read_boxes(tmp_path / name)


def test_an_unknown_suffix_lists_what_is_read(tmp_path):
    with pytest.raises(DataError, match=r"ends in '\.txt'.*COCO \.json, a \.csv"):
        read_boxes(write_text(tmp_path / "boxes.txt", ""))
    with pytest.raises(DataError, match="does not exist"):
        read_boxes(tmp_path / "absent.csv")


# COCO


ANNOTATION = {"id": 1, "image_id": 7, "category_id": 3, "bbox": [0, 0, 16, 12]}


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"annotations": [ANNOTATION | {"image_id": 8}]},
            r"annotations\[0\]: the image_id 8 is not",
        ),
        (
            {"annotations": [ANNOTATION | {"category_id": 9}]},
            r"annotations\[0\]: the category_id 9",
        ),
        ({"annotations": [ANNOTATION | {"bbox": [0, 0, 5]}]}, r"annotations\[0\]: expected bbox"),
        ({"annotations": [ANNOTATION | {"bbox": [0, 0, 0, 5]}]}, "no area"),
        ({"annotations": [ANNOTATION | {"bbox": [0, 0, 5, -5]}]}, "no area"),
        ({"annotations": [ANNOTATION | {"bbox": [0, 0, None, 5]}]}, "expected four numbers"),
        ({"annotations": [ANNOTATION | {"bbox": [0, float("nan"), 5, 5]}]}, "not finite"),
        ({"annotations": [ANNOTATION | {"bbox": [0, 0, 1e308, float("inf")]}]}, "not finite"),
        ({"annotations": [ANNOTATION | {"bbox": [0, 0, 1e39, 5]}]}, "larger than any image"),
        ({"annotations": [ANNOTATION | {"bbox": [2**24 - 1, 0, 1e-3, 5]}]}, "no area"),
        ({"annotations": [ANNOTATION | {"bbox": [0, 0, 10**400, 5]}]}, "expected four numbers"),
        ({"annotations": [ANNOTATION | {"category_id": [3]}]}, r"the category_id \[3\] is not"),
        ({"annotations": [3]}, r"annotations\[0\]: expected an object, found 3"),
        ({"annotations": None}, "expected a list called 'annotations'"),
        ({"images": [{"id": 7}]}, r"images\[0\]: expected an id and a file_name"),
        ({"images": [{"id": [], "file_name": "a.jpg"}]}, r"images\[0\]: expected an id"),
        (
            {"images": [{"id": 7, "file_name": "a.jpg"}] * 2},
            r"images\[1\]: the id 7 .* second time",
        ),
    ],
)
def test_a_wrong_coco_entry_is_an_error_that_says_where(tmp_path, changes, message):
    with pytest.raises(DataError, match=message):
        read_boxes(write_text(tmp_path / "x.json", coco(**changes)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "expected a COCO object or Label Studio's tasks"),
        ("3", "expected a COCO object, found a JSON int"),
        ('[{"id": 1}]', "task 1: expected a task with data"),
        ('[{"data": {}}]', "task 1: expected a list of annotations.*JSON-MIN"),
    ],
)
def test_json_of_another_kind_is_an_error_that_says_what_was_expected(text, message, tmp_path):
    with pytest.raises(DataError, match=message):
        read_boxes(write_text(tmp_path / "x.json", text))


def test_crowds_are_left_out(tmp_path):
    annotations = [ANNOTATION | {"iscrowd": 1}, ANNOTATION | {"iscrowd": 0}]
    assert boxes(write_text(tmp_path / "x.json", coco(annotations=annotations))) == [WHOLE]


# Pascal VOC


def test_voc_counts_pixels_from_one(tmp_path):
    write_text(tmp_path / "a.xml", voc((1, 1, 16, 12), (3, 4, 8, 9)))
    assert boxes(tmp_path) == [(0, 0, 16, 12), (2, 3, 8, 9)]


def test_a_zero_anywhere_means_that_all_are_counted_from_zero(tmp_path):
    write_text(tmp_path / "a.xml", voc((3, 4, 8, 9)))
    write_text(tmp_path / "b.xml", voc((5, 0, 16, 12)))
    assert boxes(tmp_path) == [(3, 4, 8, 9), (5, 0, 16, 12)]


def test_an_xml_without_filename_goes_by_its_own_name(tmp_path):
    write_text(tmp_path / "b.v2.xml", voc((1, 1, 2, 2), filename=""))
    assert read_boxes(tmp_path)[0].files == ("b.v2",)


def test_the_folder_of_an_xml_comes_before_its_bare_name(tmp_path):
    write_text(tmp_path / "cats" / "a.xml", voc((1, 1, 2, 2)))
    assert read_boxes(tmp_path)[0].files == ("cats/a.jpg", "a.jpg")


@pytest.mark.parametrize(
    "content, message",
    [
        (voc((1, 1, "x", 2)), r"a\.xml, object 1: expected four numbers"),
        (voc((1, 1, 2, 2), (5, 1, 4, 2)), r"a\.xml, object 2: the box has no area"),
        ("<annotation><object><name>c</name></object></annotation>", r"object 1: expected four"),
    ],
)
def test_a_wrong_voc_box_is_an_error_that_says_where(tmp_path, content, message):
    write_text(tmp_path / "a.xml", content)
    with pytest.raises(DataError, match=message):
        read_boxes(tmp_path)


def test_a_folder_without_xml_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"holds no \.xml"):
        read_boxes(tmp_path)


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE b [<!ENTITY x "ha"><!ENTITY y "&x;&x;">]><annotation>&y;</annotation>',
        '<!DOCTYPE b SYSTEM "http://example.org/x.dtd"><annotation/>',
        '<!DOCTYPE b [<!ENTITY x SYSTEM "file:///etc/passwd">]><annotation>&x;</annotation>',
    ],
)
def test_xml_that_defines_entities_is_refused(tmp_path, doctype):
    write_text(tmp_path / "a.xml", doctype)
    with pytest.raises(DataError, match=r"a\.xml is not a VOC annotation: it has a DOCTYPE"):
        read_boxes(tmp_path)


# CSV


def test_columns_may_stand_in_any_order_under_common_names(tmp_path):
    text = (
        "\ufefffilename,width,height,class,XMIN, ymin,xmax,ymax\r\n"
        '"a, b.jpg",16,12,cat,1,2,3,4\r\n\r\n'
    )
    record = read_boxes(write_text(tmp_path / "x.csv", text))[0]
    assert (record.files, record.box_xyxy, record.label) == (("a, b.jpg",), (1, 2, 3, 4), "cat")


def test_a_csv_without_labels_gives_none(tmp_path):
    path = write_text(tmp_path / "x.csv", "path,xmin,ymin,xmax,ymax\na.jpg,1,2,3,4\n")
    assert read_boxes(path)[0].label is None


@pytest.mark.parametrize(
    "text, message",
    [
        ("path,x,y,w,h\n", "line 1: the header lacks xmin, ymin, xmax, ymax"),
        ("path,xmin,ymin,xmax,ymax\na,1,2,3\n", "line 2: expected 5 fields, found 4"),
        ("path,xmin,ymin,xmax,ymax\na,1,2,3,4\nb,1,2,1,4\n", "line 3: the box has no area"),
        ('path,xmin,ymin,xmax,ymax\n"a,1,2,3,4\n', "is not a CSV file"),
    ],
)
def test_a_wrong_csv_row_is_an_error_that_says_where(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_boxes(write_text(tmp_path / "x.csv", text))


# Matching


FILES = ["cats/a.jpg", "cats/old/a.jpg", "dogs/b.JPG", "dogs/c.d.png"]


def match(name):
    return match_images([Record("here", (name,), WHOLE, None)], FILES, "/data").tolist()


@pytest.mark.parametrize(
    "name, index",
    [
        ("cats/a.jpg", 0),
        ("old/a.jpg", 1),
        ("b.JPG", 2),
        ("b", 2),
        ("c.d", 3),
        ("images/dogs/b.JPG", 2),
        ("./dogs/b.JPG", 2),
        ("dogs/x/../b.JPG", 2),
        ("/data/dogs/b.JPG", 2),
        ("dogs\\b.JPG", 2),
    ],
)
def test_a_name_finds_its_image(name, index):
    assert match(name) == [index]


@pytest.mark.parametrize("name", ["cats/b.JPG", "b.jpg", "dogs/c", "zebra.png", "dogs"])
def test_a_name_that_only_resembles_an_image_is_unknown(name):
    with pytest.raises(DataError, match="1 of 1 annotated images are not in /data"):
        match(name)


def test_a_name_that_fits_several_images_is_an_error():
    with pytest.raises(DataError, match=r"here: 'a.jpg' fits 2 images: cats/a.jpg, cats/old/a.jpg"):
        match("a.jpg")


@pytest.mark.parametrize(
    "name", ["../cats/a.jpg", "/etc/a.jpg", "/data/../cats/a.jpg", "c:/a.jpg", ".", ""]
)
def test_a_name_cannot_leave_the_folder(name):
    with pytest.raises(DataError, match=r"here: the image name .* leads out of the data folder"):
        match(name)


@pytest.mark.parametrize(
    ("address", "files"),
    [
        ("/data/local-files/?d=birds/a%20b.jpg", ("birds/a b.jpg",)),
        ("/data/upload/3/0a1b2c3d-a.jpg", ("data/upload/3/0a1b2c3d-a.jpg", "a.jpg")),
        ("https://example.org/birds/a.jpg?x=1", ("birds/a.jpg",)),
        ("a.jpg", ("a.jpg",)),
    ],
)
def test_label_studio_names_images_by_their_address(address, files, tmp_path):
    path = write_text(tmp_path / "x.json", label_studio((0, 0, 50, 50), file=address))
    assert read_boxes(path)[0].files == files


def test_label_studio_gives_the_box_around_a_turned_region(tmp_path):
    """What `gc-net predict --format=label_studio` writes is read back, once someone accepts it."""
    turned = OrientedBox((100.0, 50.0), 60.0, 20.0, math.radians(30))
    classes = (ClassScore(0, "cat", 0.5),)
    corners = turned.corners()
    ellipse = Ellipse((100.0, 50.0), (60.0, 20.0), math.radians(30))
    around = ellipse.points(1000)
    box = (*corners.min(axis=0).tolist(), *corners.max(axis=0).tolist())
    round_box = (*around.min(axis=0).tolist(), *around.max(axis=0).tolist())
    size = (100, 200)
    predictions = {
        "a.jpg": Prediction(
            size, "rotated_rectangle", (), box, tuple(map(tuple, corners.tolist())), None, classes
        ),
        "b.jpg": Prediction(size, "rotated_ellipse", (), round_box, None, ellipse, classes),
    }
    for file, prediction in predictions.items():
        path = formats.get("label_studio").write(str(tmp_path), [(file, prediction)], ("cat",))
        (task,) = json.loads(Path(path).read_text("utf-8"))
        assert (
            read_boxes(write_text(tmp_path / "x.json", json.dumps([task | {"annotations": []}])))
            == []
        )  # nobody has looked at it yet
        task["annotations"] = task.pop("predictions")
        (record,) = read_boxes(write_text(tmp_path / "x.json", json.dumps([task])))
        assert record.box_xyxy == pytest.approx(prediction.box_xyxy, abs=0.02)
        task["annotations"][0]["was_cancelled"] = True
        assert read_boxes(write_text(tmp_path / "x.json", json.dumps([task]))) == []
