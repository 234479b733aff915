import numpy as np
import pytest

from gc_net import datasets
from gc_net.data.splits import DataError
from gc_net.datasets.cub import CUB, readable_name
from tests.datasets.samples import real_data, write_image, write_text

# Ids have gaps, and the lists are not in the order of the ids, as nothing promises that.
LISTS = {
    "classes.txt": "1 001.Black_footed_Albatross\n7 007.Parakeet_Auklet \n",
    "images.txt": "2 001.Black_footed_Albatross/a.jpg\n9 007.Parakeet_Auklet/b.jpg\n"
    "5 001.Black_footed_Albatross/c d.jpg\n12 007.Parakeet_Auklet/e.jpg\n",
    "image_class_labels.txt": "12 7\n2 1\n5 1\n9 7\n",
    "train_test_split.txt": "2 1\n5 0\n9 1\n12 0\n",
    "bounding_boxes.txt": "2 1.0 2.0 3.0 4.0\n12 0.5 0.0 10.25 5.0\n5 2 3 4 5\n9 0 0 16 12\n",
}


@pytest.fixture
def copy(tmp_path):
    folder = tmp_path / "CUB_200_2011"
    for name, text in LISTS.items():
        write_text(folder / name, text)
    for seed, line in enumerate(LISTS["images.txt"].splitlines()):
        write_image(folder / "images" / line.partition(" ")[2], seed=seed)
    return folder


def replace(folder, name, old, new):
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))


def test_splits_are_joined_by_id(copy):
    dataset = CUB(copy)
    train, test = dataset.split("train"), dataset.split("test")
    assert [train.file(i) for i in range(len(train))] == [
        "001.Black_footed_Albatross/a.jpg",
        "007.Parakeet_Auklet/b.jpg",
    ]
    assert [test.file(i) for i in range(len(test))] == [
        "001.Black_footed_Albatross/c d.jpg",
        "007.Parakeet_Auklet/e.jpg",
    ]
    np.testing.assert_array_equal(train.labels, [0, 1])
    assert train.labels.dtype == np.int32
    assert train.class_names == ("Black footed Albatross", "Parakeet Auklet")
    assert dataset.class_families() == ("Albatross", "Auklet")


def test_boxes_become_corners_in_the_order_of_the_split(copy):
    truth = CUB(copy).truth("test")
    np.testing.assert_array_equal(truth.boxes, [[2, 3, 6, 8], [0.5, 0, 10.75, 5]])
    np.testing.assert_array_equal(truth.boxes_of(1), [[0.5, 0, 10.75, 5]])
    assert truth.boxes.dtype == np.float32
    assert truth.starts.tolist() == [0, 1, 2]


PART_NAMES = "1 back\n2 beak\n14 tail\n4 breast\n5 crown\n10 nape\n15 throat\n"


def write_parts(copy, parts):
    """Write parts {image id: {part id: (x, y)}}; one more part of each image is not visible."""
    lines = [
        f"{image_id} {part_id} {x} {y} 1"
        for image_id, points in parts.items()
        for part_id, (x, y) in points.items()
    ]
    lines += [f"{image_id} 15 900.0 900.0 0" for image_id in parts]
    write_text(copy / "parts" / "parts.txt", PART_NAMES)
    write_text(copy / "parts" / "part_locs.txt", "\n".join(lines) + "\n")


def along(angle, across=0.2):
    """Six parts along a line that is turned by `angle` degrees, clockwise on screen."""
    turn = np.radians(angle)
    u, v = np.array([np.cos(turn), np.sin(turn)]), np.array([-np.sin(turn), np.cos(turn)])
    offsets = {2: (2, 0), 14: (-2, 0), 1: (-1, 1), 4: (1, -1), 5: (1, 1), 10: (-1, -1)}
    return {
        part: tuple(np.round(50 + 10 * (s * u + t * across * v), 4).tolist())
        for part, (s, t) in offsets.items()
    }


@pytest.mark.parametrize("angle", [-89, -30, 0, 45, 90, 120])
def test_the_axis_joins_beak_and_tail_clockwise_on_screen(copy, angle):
    write_parts(copy, {5: along(angle), 12: along(0)})
    angles = np.degrees(CUB(copy).truth("test").angles)
    expected = angle - 180 if angle > 90 else angle
    np.testing.assert_allclose(angles, [expected, 0], atol=0.01)


def test_birds_without_a_clear_axis_have_none(copy):
    few = dict(list(along(20).items())[:5])
    no_beak = {**along(20), 15: (50.0, 50.0)}
    del no_beak[2]
    write_parts(copy, {2: along(20), 5: few, 9: along(20, across=2.0), 12: no_beak})
    dataset = CUB(copy)
    assert np.isnan(dataset.truth("test").angles).all()
    np.testing.assert_allclose(np.degrees(dataset.truth("train").angles), [20, np.nan], atol=0.01)


def test_without_parts_there_are_no_angles(copy):
    assert CUB(copy).truth("test").angles is None


@pytest.mark.parametrize(
    "line", ["5 2 1.0 2.0", "5 2 1.0 2.0 3", "5 x 1.0 2.0 1", "5 2 nan 2.0 1", "-5 2 1.0 2.0 1"]
)
def test_a_damaged_line_of_parts_is_named(copy, line):
    write_parts(copy, {5: along(0)})
    path = copy / "parts" / "part_locs.txt"
    path.write_text(line + "\n" + path.read_text())
    with pytest.raises(DataError, match=r"part_locs.txt.*1: cannot read"):
        CUB(copy).truth("test")


def test_some_classes_are_a_dataset_of_their_own(copy):
    dataset = CUB(copy, num_classes=1)
    train, test = dataset.split("train"), dataset.split("test")
    assert dataset.class_names == train.class_names == ("Black footed Albatross",)
    assert [split.file(0)[-5:] for split in (train, test)] == ["a.jpg", "d.jpg"]
    assert train.labels.tolist() == test.labels.tolist() == [0]
    np.testing.assert_array_equal(dataset.truth("test").boxes, [[2, 3, 6, 8]])


@pytest.mark.parametrize("num_classes", [0, 3, 1.5, "all"])
def test_an_impossible_number_of_classes_is_refused(copy, num_classes):
    with pytest.raises(DataError, match="from 1 to 2"):
        CUB(copy, num_classes=num_classes)


def test_the_registry_opens_it_from_the_parent_folder(copy):
    dataset = datasets.get("cub", data_dir=copy.parent, seed=3)
    assert len(dataset.split("train")) == 2


def test_an_image_is_read_by_index(copy):
    assert CUB(copy).split("train").read(1).shape == (12, 16, 3)


def test_training_never_opens_the_boxes(copy):
    write_text(copy / "bounding_boxes.txt", "not a box at all")
    assert len(CUB(copy).split("train")) == 2
    with pytest.raises(DataError, match="bounding_boxes"):
        CUB(copy).truth("test")


def test_without_a_box_file_there_is_no_truth(copy):
    (copy / "bounding_boxes.txt").unlink()
    assert CUB(copy).truth("test") is None


@pytest.mark.parametrize(
    "name, old, new, message",
    [
        ("image_class_labels.txt", "5 1\n", "", r"image_class_labels\.txt.*1 of the 4.*: 5\."),
        ("image_class_labels.txt", "5 1\n", "5 8\n", r"image_class_labels\.txt, line 3.*class 8"),
        ("image_class_labels.txt", "5 1\n", "5 one\n", r"image_class_labels\.txt, line 3.*5 one"),
        ("image_class_labels.txt", "5 1\n", "2 1\n", r"line 3: the id 2 is there a second time"),
        ("train_test_split.txt", "5 0\n", "5 2\n", r"train_test_split\.txt, line 2.*1 for train"),
        ("train_test_split.txt", "5 0\n", "5 0\n6 0\n", r"line 3: the image id 6 is not in"),
        ("images.txt", "9 007", "nine 007", r"images\.txt, line 2.*nine"),
        ("images.txt", "007.Parakeet_Auklet/b", "../b", r"images\.txt, line 2.*below images/"),
        ("images.txt", "007.Parakeet_Auklet/b", "/etc/b", r"images\.txt, line 2.*below images/"),
        ("images.txt", "007.Parakeet_Auklet/b", "a\0/b", r"images\.txt, line 2.*below images/"),
        ("images.txt", "9 007", f"{2**63} 007", r"images\.txt, line 2.*expected an id"),
        ("classes.txt", "7 007", "7 007.Again\n7 007", r"classes\.txt, line 3.*second time"),
        ("classes.txt", "7 007", "8 008.Nobody\n7 007", r"no training image: Nobody"),
        ("images.txt", LISTS["images.txt"], "\n", r"images\.txt is empty"),
    ],
)
def test_an_inconsistent_list_is_an_error_that_says_where(copy, name, old, new, message):
    replace(copy, name, old, new)
    with pytest.raises(DataError, match=message):
        CUB(copy)


@pytest.mark.parametrize(
    "box", ["1 2 3", "1 2 0 4", "1 2 3 -4", "1 nan 3 4", "1 2 inf 4", "1 2 1e39 4", "a b c d"]
)
def test_a_malformed_box_is_an_error_that_says_where(copy, box):
    replace(copy, "bounding_boxes.txt", "2 3 4 5", box)
    with pytest.raises(DataError, match=r"bounding_boxes\.txt, line 3"):
        CUB(copy).truth("train")


def test_missing_images_are_counted_and_named_in_one_error(copy):
    for path in (copy / "images").rglob("*.jpg"):
        path.unlink()
    with pytest.raises(DataError, match=r"4 of the 4 images.*Albatross/a\.jpg.*c d\.jpg"):
        CUB(copy)


@pytest.mark.parametrize("name", ["classes.txt", "image_class_labels.txt", "train_test_split.txt"])
def test_a_missing_list_is_named(copy, name):
    (copy / name).unlink()
    with pytest.raises(DataError, match=rf"{name} cannot be read: No such file"):
        CUB(copy)


def test_a_binary_list_is_an_error(copy):
    (copy / "classes.txt").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(DataError, match=r"classes\.txt is not UTF-8"):
        CUB(copy)


def test_the_wrong_folder_is_named(tmp_path):
    with pytest.raises(DataError, match=r"holds no images\.txt"):
        CUB(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        CUB(tmp_path / "absent")


def test_an_unknown_split_lists_the_known_ones(copy):
    with pytest.raises(ValueError, match="train, test"):
        CUB(copy).split("val")


@pytest.mark.parametrize(
    "folder, name",
    [("001.Black_footed_Albatross", "Black footed Albatross"), ("owl", "owl"), ("a.b_c", "a.b c")],
)
def test_names_are_made_readable(folder, name):
    assert readable_name(folder) == name


@pytest.mark.data
def test_the_real_copy_is_read():
    dataset = CUB(real_data("CUB_200_2011"))
    train, test = dataset.split("train"), dataset.split("test")
    assert (len(train), len(test)) == (5994, 2846)
    assert len(set(dataset.class_names)) == 200
    # About 30 training images of each class, as the dataset's authors describe it.
    assert set(np.bincount(train.labels)) == {29, 30}
    truth = dataset.truth("test")
    assert len(truth.boxes) == len(test)
    height, width = test.read(0).shape[:2]
    x1, y1, x2, y2 = truth.boxes_of(0)[0]
    assert 0 <= x1 < x2 <= width + 1 and 0 <= y1 < y2 <= height + 1
