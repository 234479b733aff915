import shutil

import numpy as np
import pytest

from gc_net import datasets
from gc_net.data.splits import DataError
from gc_net.datasets.ilsvrc import ILSVRC
from gc_net.datasets.ilsvrc_lists import read_solution, read_synsets, read_xmls, short_names
from tests.datasets.samples import real_data, write_image, write_text

# Not in order, and one class without images: labels go by the order of all wnids.
MAPPING = "n03 crane\nn01 tench, Tinca tinca\nn02 crane\nn04 maillot, tank suit\n"
SOLUTION = {
    "val_1": [("n03", 1, 2, 9, 8)],
    "val_2": [("n01", 0, 0, 16, 12), ("n01", 3, 3, 5, 5)],
    "val_3": [("n04", 2, 2, 4, 4)],
}


def solution_text():
    rows = [
        f"{image},{' '.join(' '.join(map(str, box)) for box in boxes)} "
        for image, boxes in SOLUTION.items()
    ]
    return "ImageId,PredictionString\n" + "\n".join(rows) + "\n"


def write_xmls(root):
    for image, boxes in SOLUTION.items():
        objects = "".join(
            f"<object><name>{wnid}</name><bndbox><xmin>{x1}</xmin><ymin>{y1}</ymin>"
            f"<xmax>{x2}</xmax><ymax>{y2}</ymax></bndbox></object>"
            for wnid, x1, y1, x2, y2 in boxes
        )
        write_text(
            root / "Annotations" / "CLS-LOC" / "val" / f"{image}.xml",
            f"<annotation><filename>{image}</filename>{objects}</annotation>",
        )


@pytest.fixture
def copy(tmp_path):
    root = tmp_path / "ILSVRC"
    for file in ("n01/n01_5.JPEG", "n01/n01_11.JPEG", "n03/n03_2.JPEG", "n04/n04_1.jpeg"):
        write_image(root / "Data/CLS-LOC/train" / file)
    for image in SOLUTION:
        write_image(root / "Data/CLS-LOC/val" / f"{image}.JPEG")
    write_text(root / "LOC_synset_mapping.txt", MAPPING)
    write_text(root / "LOC_val_solution.csv", solution_text())
    return root


@pytest.mark.filterwarnings("ignore:1 of the 4 classes")
def test_labels_are_places_among_all_wnids(copy):
    train = datasets.get("ilsvrc", data_dir=copy).split("train")
    assert [(train.file(i), int(train.labels[i])) for i in range(len(train))] == [
        ("n01/n01_11.JPEG", 0),
        ("n01/n01_5.JPEG", 0),
        ("n03/n03_2.JPEG", 2),
        ("n04/n04_1.jpeg", 3),
    ]
    assert train.labels.dtype == np.int32
    assert train.class_names == ("tench", "crane (n02)", "crane (n03)", "maillot")
    assert train.read(0).shape == (12, 16, 3)


def test_a_class_without_training_images_is_named(copy):
    with pytest.warns(
        UserWarning, match=r"1 of the 4 classes have no training image: crane \(n02\)"
    ):
        ILSVRC(copy).split("train")


@pytest.mark.parametrize("source", ["csv", "xml"])
def test_test_labels_and_boxes_come_from_either_source(copy, source):
    if source == "xml":
        (copy / "LOC_val_solution.csv").unlink()
        write_xmls(copy)
    dataset = ILSVRC(copy)
    test, truth = dataset.split("test"), dataset.truth("test")
    assert [test.file(index) for index in range(3)] == ["val_1.JPEG", "val_2.JPEG", "val_3.JPEG"]
    assert test.labels.tolist() == [2, 0, 3]
    assert truth.starts.tolist() == [0, 1, 3, 4]
    assert truth.boxes_of(1).tolist() == [[0, 0, 16, 12], [3, 3, 5, 5]]
    assert truth.boxes.dtype == np.float32


def test_training_images_have_no_truth(copy):
    assert ILSVRC(copy).truth("train") is None


def test_training_never_opens_the_boxes(copy, recwarn):
    write_text(copy / "LOC_val_solution.csv", "nothing of use")
    assert len(ILSVRC(copy).split("train")) == 4


def test_the_level_may_be_left_out_and_lists_may_lie_beside_it(copy):
    for name in ("LOC_synset_mapping.txt", "LOC_val_solution.csv"):
        shutil.move(copy / name, copy.parent / name)
    for data_dir in (copy, copy.parent):
        assert ILSVRC(data_dir).split("test").labels.tolist() == [2, 0, 3]


def test_test_images_sorted_into_folders_take_their_label_from_them(copy):
    val = copy / "Data/CLS-LOC/val"
    for image, boxes in SOLUTION.items():
        (val / boxes[0][0]).mkdir(exist_ok=True)
        (val / f"{image}.JPEG").rename(val / boxes[0][0] / f"{image}.JPEG")
    dataset = ILSVRC(copy)
    assert dataset.split("test").labels.tolist() == [0, 2, 3]
    assert dataset.truth("test").starts.tolist() == [0, 2, 3, 4]
    (copy / "LOC_val_solution.csv").unlink()
    assert ILSVRC(copy).split("test").labels.tolist() == [0, 2, 3]
    assert ILSVRC(copy).truth("test") is None


def test_a_subset_of_the_test_images_is_named_as_one(copy):
    (copy / "Data/CLS-LOC/val/val_2.JPEG").unlink()
    dataset = ILSVRC(copy)
    with pytest.warns(UserWarning, match="2 of the 3 annotated test images"):
        assert dataset.split("test").labels.tolist() == [2, 3]
    assert dataset.truth("test").boxes.tolist() == [[1, 2, 9, 8], [2, 2, 4, 4]]


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("ImageId", "Image", r"solution\.csv, line 1: expected ImageId,PredictionString"),
        ("n03 1 2 9 8", "n03 1 2 9", r"solution\.csv, line 2: expected one or more boxes"),
        ("n03 1 2 9 8", "", r"line 2: expected one or more boxes"),
        ("n03 1 2 9 8", "n09 1 2 9 8", r"line 2: .*one known class.*found n09"),
        ("n03 1 2 9 8", "n03 1 2 9 8 n01 1 2 9 8", r"line 2: .*one known class.*found n01, n03"),
        ("n03 1 2 9 8", "n03 9 2 1 8", r"line 2: the box has no area"),
        ("n03 1 2 9 8", "n03 1 2 9 x", r"line 2: expected four numbers"),
        ("val_1", "val_7", r"1 of the 3 images in .*val are not in .*solution\.csv: val_1\.JPEG"),
    ],
)
def test_a_wrong_solution_is_an_error_that_says_where(copy, old, new, message):
    write_text(copy / "LOC_val_solution.csv", solution_text().replace(old, new))
    with pytest.raises(DataError, match=message):
        ILSVRC(copy).split("test")


def test_a_wrong_xml_is_an_error_that_says_where(copy):
    (copy / "LOC_val_solution.csv").unlink()
    write_xmls(copy)
    write_text(copy / "Annotations/CLS-LOC/val/val_2.xml", "<annotation></annotation>")
    with pytest.raises(DataError, match=r"val_2\.xml: expected one or more boxes.*found none"):
        ILSVRC(copy).split("test")


def test_test_images_without_any_annotation_are_an_error(copy):
    (copy / "LOC_val_solution.csv").unlink()
    with pytest.raises(DataError, match=r"no labels: there is neither LOC_val_solution\.csv nor"):
        ILSVRC(copy).split("test")


def test_a_folder_of_no_known_class_is_an_error(copy):
    write_image(copy / "Data/CLS-LOC/train/n99/x.JPEG")
    with pytest.raises(DataError, match=r"not among the 4 classes.*: n99\."):
        ILSVRC(copy).split("train")


def test_training_images_outside_the_folders_are_an_error(copy):
    write_image(copy / "Data/CLS-LOC/train/x.JPEG")
    with pytest.raises(DataError, match=r"holds 1 images outside.*: x\.JPEG"):
        ILSVRC(copy).split("train")


def test_archives_that_were_not_unpacked_are_recognised(copy):
    shutil.rmtree(copy / "Data/CLS-LOC/train")
    write_text(copy / "Data/CLS-LOC/train/n01.tar", "x")
    with pytest.raises(DataError, match=r"found 1 \.tar files\. Unpack"):
        ILSVRC(copy).split("train")


def test_a_missing_split_is_named_when_it_is_asked_for(copy):
    shutil.rmtree(copy / "Data/CLS-LOC/val")
    dataset = ILSVRC(copy)
    with pytest.raises(DataError, match=r"CLS-LOC/val of the test images does not exist"):
        dataset.split("test")


def test_without_the_mapping_a_subset_has_no_labels(copy):
    (copy / "LOC_synset_mapping.txt").unlink()
    with pytest.raises(DataError, match=r"There is no LOC_synset_mapping\.txt.*3 folders"):
        ILSVRC(copy)


def test_without_the_mapping_a_thousand_folders_are_the_classes(copy):
    (copy / "LOC_synset_mapping.txt").unlink()
    shutil.rmtree(copy / "Data/CLS-LOC/train")
    for number in range(1000):
        (copy / f"Data/CLS-LOC/train/n{number:08d}").mkdir(parents=True)
    assert ILSVRC(copy).class_names[7] == "n00000007"


@pytest.mark.parametrize("line", ["n05", "n01 again"])
def test_a_wrong_mapping_is_an_error_that_says_where(copy, line):
    write_text(copy / "LOC_synset_mapping.txt", MAPPING + line)
    with pytest.raises(DataError, match=r"mapping\.txt, line 5"):
        ILSVRC(copy)


def test_names_that_two_classes_share_carry_the_wnid():
    names = short_names({"n1": "a, x", "n2": "b", "n3": "a, y"})
    assert names == ["a (n1)", "b", "a (n3)"]


@pytest.mark.data
def test_the_real_subset_is_read():
    dataset = ILSVRC(real_data("ILSVRC"))
    train, test, truth = dataset.split("train"), dataset.split("test"), dataset.truth("test")
    assert (len(train), len(test)) == (2000, 1000)
    assert np.bincount(train.labels).tolist() == [2] * 1000
    assert np.bincount(test.labels).tolist() == [1] * 1000
    assert len(set(dataset.class_names)) == 1000
    assert (dataset.class_names[0], dataset.class_names[999]) == ("tench", "toilet tissue")
    assert np.diff(truth.starts).min() == 1 and np.diff(truth.starts).max() > 1


@pytest.mark.data
def test_the_real_csv_and_xmls_agree():
    root = real_data("ILSVRC")
    wnids = read_synsets(root / "LOC_synset_mapping.txt")
    solution = read_solution(root / "LOC_val_solution.csv", wnids)
    assert solution == read_xmls(root / "Annotations/CLS-LOC/val", wnids)
    assert len(solution) == 1000
