import os
import unicodedata

import numpy as np
import pytest

from gc_net import datasets
from gc_net.data import index
from gc_net.data.pillow_formats import HEIC_EXTENSIONS
from gc_net.data.splits import DataError
from gc_net.datasets.folder import Folder
from tests.datasets.samples import write_image, write_photos, write_text


def names(split):
    return {split.file(index) for index in range(len(split))}


def by_class(split):
    return {
        name: int(count)
        for name, count in zip(
            split.class_names,
            np.bincount(split.labels, minlength=len(split.class_names)),
            strict=True,
        )
    }


@pytest.fixture(autouse=True)
def no_unexpected_warnings(recwarn):
    yield
    assert [str(warning.message) for warning in recwarn] == []


def test_a_folder_per_class_is_all_it_takes(tmp_path):
    write_photos(tmp_path, {"dogs": 10, "cats": 5})
    dataset = datasets.get("folder", data_dir=tmp_path)
    train, test = dataset.split("train"), dataset.split("test")
    assert dataset.class_names == ("cats", "dogs")
    assert by_class(train) == {"cats": 4, "dogs": 8}
    assert by_class(test) == {"cats": 1, "dogs": 2}
    assert not names(train) & names(test)
    assert all(
        dataset.class_names[label] == train.file(index).split("/")[0]
        for index, label in enumerate(train.labels)
    )
    assert train.read(0).shape == (12, 16, 3)
    assert dataset.truth("test") is None


def test_images_are_found_at_any_depth_and_of_any_common_kind(tmp_path):
    for file in (
        "a/one.JPG",
        "a/deep/er/two.jpeg",
        "a/üñï cödé 日本.Png",
        "b/x y z.webp",
        "b/q.BMP",
    ):
        write_image(tmp_path / file, seed=len(file))
    dataset = Folder(tmp_path)
    found = names(dataset.split("train")) | names(dataset.split("test"))
    assert found == {
        "a/one.JPG",
        "a/deep/er/two.jpeg",
        "a/üñï cödé 日本.Png",
        "b/x y z.webp",
        "b/q.BMP",
    }
    for name in ("train", "test"):
        split = dataset.split(name)
        assert all(split.read(index).ndim == 3 for index in range(len(split)))


def test_what_file_managers_leave_behind_is_ignored(tmp_path):
    write_photos(tmp_path, {"a": 2, "b": 2})
    for file in (
        "a/.hidden.png",
        "a/._000.png",
        ".git/x.png",
        "__MACOSX/a/000.png",
        "a/@eaDir/thumb.png",
    ):
        write_image(tmp_path / file)
    for file in ("a/Thumbs.db", "b/notes.txt", "README.md", "a/.DS_Store"):
        write_text(tmp_path / file, "x")
    dataset = Folder(tmp_path)
    found = names(dataset.split("train")) | names(dataset.split("test"))
    assert found == {"a/000.png", "a/001.png", "b/000.png", "b/001.png"}


def test_links_are_followed_once_and_loops_end(tmp_path, recwarn):
    data = write_photos(tmp_path / "data", {"a": 2, "b": 2})
    write_photos(tmp_path / "elsewhere", {"c": 3})
    (data / "c").symlink_to(tmp_path / "elsewhere" / "c")
    (data / "a" / "linked.png").symlink_to(tmp_path / "elsewhere" / "c" / "000.png")
    (data / "a" / "up").symlink_to(data)
    (data / "b" / "again").symlink_to(data / "b")
    dataset = Folder(data)
    assert dataset.class_names == ("a", "b", "c")
    total = np.add(*(list(by_class(dataset.split(name)).values()) for name in ("train", "test")))
    assert total.tolist() == [3, 2, 3]
    message = str(recwarn.pop(UserWarning).message)
    assert "a/up = ." in message and "b/again = b" in message


@pytest.mark.parametrize("test_name", ["val", "valid", "validation", "test", "Val"])
def test_splits_of_the_user_are_kept(tmp_path, test_name):
    write_photos(tmp_path / "train", {"a": 3, "b": 4})
    write_photos(tmp_path / test_name, {"a": 1, "b": 2})
    dataset = Folder(tmp_path)
    assert by_class(dataset.split("train")) == {"a": 3, "b": 4}
    assert by_class(dataset.split("test")) == {"a": 1, "b": 2}
    assert all(name.startswith(f"{test_name}/") for name in names(dataset.split("test")))


def test_of_three_parts_the_unused_one_is_named(tmp_path, recwarn):
    for name in ("train", "val", "test"):
        write_photos(tmp_path / name, {"a": 2, "b": 2})
    test = Folder(tmp_path).split("test")
    assert all(name.startswith("test/") for name in names(test))
    assert "other folders than the splits': val" in str(recwarn.pop(UserWarning).message)


def test_a_train_folder_alone_is_split(tmp_path):
    write_photos(tmp_path / "train", {"a": 5, "b": 5})
    dataset = Folder(tmp_path)
    assert dataset.class_names == ("a", "b")
    assert len(dataset.split("test")) == 2


def test_train_may_be_the_name_of_a_class(tmp_path):
    write_photos(tmp_path, {"train/steam": 2, "train/diesel": 2, "car": 2, "plane": 2})
    assert Folder(tmp_path).class_names == ("car", "plane", "train")


@pytest.mark.parametrize(
    "beside",
    [
        {"test": 4},
        {"Test": 9, "val": 1},
        {"test": 4, "docs": 5, "extra/a": 3},
        {"docs": 1},
        {"docs": 9},
        {"docs": 1, "figures": 2},
    ],
)
def test_images_without_a_class_beside_a_train_folder_are_left_out(tmp_path, recwarn, beside):
    write_photos(tmp_path / "train", {"cats": 3, "dogs": 4})
    write_photos(tmp_path, beside)
    dataset = Folder(tmp_path)
    assert dataset.class_names == ("cats", "dogs")
    found = names(dataset.split("train")) | names(dataset.split("test"))
    assert len(found) == 7 and all(name.startswith("train/") for name in found)
    folders = ", ".join(sorted({name.split("/")[0] for name in beside}))
    assert f"other folders than the splits': {folders}." in str(recwarn.pop(UserWarning).message)


@pytest.mark.parametrize("test", [{"test": 3}, {"test/a": 1, "test/b": 1}])
def test_a_train_folder_without_classes_beside_a_test_folder_is_an_error(tmp_path, test):
    write_photos(tmp_path, {"train": 5, **test})
    with pytest.raises(DataError, match=r"train/ holds 5 images but no folders of classes"):
        Folder(tmp_path)


@pytest.mark.parametrize(
    "beside",
    [
        {"car/red": 3, "car/blue": 3},
        {"docs": 2, "plane": 9},
        {"old/a": 2, "old/b": 2, "new/a": 2, "new/b": 2},
    ],
)
def test_a_train_folder_that_may_be_a_split_or_a_class_is_an_error(tmp_path, beside):
    write_photos(tmp_path, {"train/a": 3, "train/b": 3, **beside})
    folders = ", ".join(sorted({name.split("/")[0] for name in beside}))
    message = rf"'train' with 2 folders of images \(a, b\), and beside it {folders}: either"
    with pytest.raises(DataError, match=message) as raised:
        Folder(tmp_path)
    assert f"data_dir={tmp_path}/train or" in str(raised.value)
    os.rename(tmp_path / "train", tmp_path / "locomotive")
    assert "locomotive" in Folder(tmp_path).class_names


@pytest.mark.parametrize("fraction", [0.01, 0.2, 0.5, 0.99])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_class_of_two_or_more_is_in_both_splits(tmp_path, seed, fraction):
    counts = {"two": 2, "three": 3, "ten": 10}
    write_photos(tmp_path, counts)
    dataset = Folder(tmp_path, seed=seed, test_fraction=fraction)
    train, test = by_class(dataset.split("train")), by_class(dataset.split("test"))
    for name, count in counts.items():
        assert train[name] >= 1 and test[name] >= 1 and train[name] + test[name] == count
        assert abs(test[name] - fraction * count) <= 1


def test_the_split_depends_on_the_seed_and_not_on_images_elsewhere(tmp_path):
    write_photos(tmp_path, {"a": 20, "b": 20})
    before = names(Folder(tmp_path, seed=1).split("test"))
    assert names(Folder(tmp_path, seed=1).split("test")) == before
    assert names(Folder(tmp_path, seed=2).split("test")) != before
    write_photos(tmp_path, {"c": 7})
    write_image(tmp_path / "b" / "new.png")
    after = names(Folder(tmp_path, seed=1).split("test"))
    assert {name for name in after if name[0] == "a"} == {name for name in before if name[0] == "a"}
    changed = {n for n in after if n[0] == "b"} ^ {n for n in before if n[0] == "b"}
    assert len(changed) <= 2


def test_a_class_of_one_image_is_trained_and_the_user_is_told(tmp_path, recwarn):
    write_photos(tmp_path, {"many": 4, "one": 1})
    dataset = Folder(tmp_path)
    assert by_class(dataset.split("train"))["one"] == 1
    assert "have no test image: one" in str(recwarn.pop(UserWarning).message)


def test_an_empty_class_is_an_error(tmp_path):
    write_photos(tmp_path, {"a": 2, "b": 2})
    write_text(tmp_path / "empty" / "readme.txt", "x")
    (tmp_path / "void").mkdir()
    with pytest.raises(DataError, match=r"2 of the 4 class folders.*hold no image: empty, void"):
        Folder(tmp_path)


def test_images_without_a_class_are_an_error_where_there_are_no_classes(tmp_path):
    write_image(tmp_path / "a.png")
    write_image(tmp_path / "b.png")
    with pytest.raises(DataError, match="holds 2 images but no folders of classes"):
        Folder(tmp_path)


def test_images_without_a_class_are_left_out_with_a_warning(tmp_path, recwarn):
    write_photos(tmp_path, {"a": 2, "b": 2})
    write_image(tmp_path / "loose.png")
    dataset = Folder(tmp_path)
    assert len(dataset.split("train")) + len(dataset.split("test")) == 4
    assert "1 images lie outside" in str(recwarn.pop(UserWarning).message)


def test_a_single_class_is_an_error_that_guesses_what_was_meant(tmp_path):
    write_photos(tmp_path / "photos", {"a": 2, "b": 2})
    with pytest.raises(DataError, match=r"one class, 'photos'.*Did you mean data_dir=.*photos\?"):
        Folder(tmp_path)
    write_photos(tmp_path / "single", {"only": 3})
    with pytest.raises(DataError, match="one class, 'only'") as raised:
        Folder(tmp_path / "single")
    assert "Did you mean" not in str(raised.value)


def test_no_images_at_all_is_an_error_that_says_what_was_found(tmp_path):
    with pytest.raises(DataError, match=r"No images.*found no files"):
        Folder(tmp_path)
    write_text(tmp_path / "a" / "x.psd", "x")
    with pytest.raises(DataError, match=r"No images.*found 1 \.psd files"):
        Folder(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        Folder(tmp_path / "absent")


def test_pictures_of_unread_kinds_are_named(tmp_path, recwarn, monkeypatch):
    # As without Pillow's plug-in for HEIC.
    monkeypatch.setattr(index, "IMAGE_EXTENSIONS", index.IMAGE_EXTENSIONS - HEIC_EXTENSIONS)
    write_photos(tmp_path, {"a": 2, "b": 2})
    write_text(tmp_path / "a" / "x.HEIC", "x")
    Folder(tmp_path)
    message = str(recwarn.pop(UserWarning).message)
    assert "convert to JPEG or PNG first: 1 .heic" in message
    assert "`pip install pillow-heif` lets HEIC be read" in message


def test_a_test_class_that_is_not_trained_is_an_error(tmp_path):
    write_photos(tmp_path / "train", {"a": 2, "b": 2})
    write_photos(tmp_path / "val", {"a": 2, "B": 2})
    with pytest.raises(DataError, match=r"1 classes have test images in .*val/ but.*: B\."):
        Folder(tmp_path)


def test_a_trained_class_that_is_not_tested_is_named(tmp_path, recwarn):
    write_photos(tmp_path / "train", {"a": 2, "b": 2})
    write_photos(tmp_path / "val", {"a": 2})
    (tmp_path / "val" / "b").mkdir()
    assert len(Folder(tmp_path).split("test")) == 2
    assert "have no test image: b" in str(recwarn.pop(UserWarning).message)


def test_names_that_are_not_utf8_are_left_out_with_a_warning(tmp_path, recwarn):
    write_photos(tmp_path, {"a": 2, "b": 2})
    try:
        with open(os.path.join(os.fsencode(tmp_path), b"a", b"caf\xe9.png"), "wb") as file:
            file.write(b"x")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    assert len(Folder(tmp_path).split("train")) == 2
    assert "not UTF-8: a/caf" in str(recwarn.pop(UserWarning).message)


@pytest.mark.parametrize("fraction", [0, 1, -0.5, 1.5])
def test_a_test_fraction_out_of_range_is_an_error(tmp_path, fraction):
    with pytest.raises(ValueError, match="between 0 and 1"):
        Folder(tmp_path, test_fraction=fraction)


def test_a_folder_without_permission_is_named(tmp_path, monkeypatch):
    write_photos(tmp_path, {"a": 2, "b": 2})
    scandir = os.scandir

    def refuse(path):
        if os.path.basename(path) == "b":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match="b cannot be read: Permission denied"):
        Folder(tmp_path)


# Boxes


CSV = "path,xmin,ymin,xmax,ymax,label\n"


@pytest.fixture
def photos(tmp_path):
    write_photos(tmp_path / "train", {"a": 2, "b": 2})
    write_photos(tmp_path / "val", {"a": 2, "b": 2})
    return tmp_path


def test_boxes_follow_the_order_of_the_split(photos):
    write_text(
        photos / "boxes.csv",
        CSV + "val/b/000.png,1,2,3,4,b\nval/a/001.png,0,0,16,12,a\nval/b/000.png,5,6,7.5,8,b\n",
    )
    truth = Folder(photos).truth("test")
    assert truth.starts.tolist() == [0, 0, 1, 3, 3]
    np.testing.assert_array_equal(
        truth.boxes, np.float32([[0, 0, 16, 12], [1, 2, 3, 4], [5, 6, 7.5, 8]])
    )
    assert Folder(photos).truth("train") is None


def test_boxes_of_an_unused_split_are_passed_over_whatever_their_labels(photos, recwarn):
    write_photos(photos / "test", {"a": 1, "b": 1})
    rows = "val/a/000.png,1,2,3,4,a\nval/b/001.png,1,2,3,4,zebra\ntest/b/000.png,5,6,7,8,b\n"
    write_text(photos / "boxes.csv", CSV + rows)
    assert Folder(photos).truth("test").boxes.tolist() == [[5, 6, 7, 8]]
    assert "other folders than the splits': val" in str(recwarn.pop(UserWarning).message)


def test_boxes_may_be_given_by_path(photos, tmp_path_factory):
    path = write_text(
        tmp_path_factory.mktemp("other") / "my.csv",
        "path,xmin,ymin,xmax,ymax\nval/a/000.png,1,1,2,3\n",
    )
    assert len(Folder(photos, boxes=path).truth("test").boxes) == 1
    write_text(photos / "mine.csv", path.read_text())
    assert len(Folder(photos, boxes="mine.csv").truth("test").boxes) == 1
    with pytest.raises(DataError, match=r"absent\.csv does not exist"):
        Folder(photos, boxes="absent.csv")


def test_training_never_opens_the_boxes(photos):
    write_text(photos / "boxes.csv", "no such header")
    assert len(Folder(photos).split("train")) == 4
    with pytest.raises(DataError, match=r"boxes\.csv, line 1"):
        Folder(photos).truth("test")


def test_a_folder_of_xmls_is_not_an_empty_class(tmp_path):
    write_photos(tmp_path, {"a": 2, "b": 2})
    write_text(
        tmp_path / "Annotations" / "a" / "000.xml",
        "<annotation><filename>000.png</filename><object><name>a</name><bndbox><xmin>1</xmin>"
        "<ymin>1</ymin><xmax>16</xmax><ymax>12</ymax></bndbox></object></annotation>",
    )
    dataset = Folder(tmp_path)
    assert dataset.class_names == ("a", "b")
    truths = [dataset.truth(name) for name in ("train", "test")]
    boxes = [truth.boxes.tolist() for truth in truths if truth is not None]
    assert boxes == [[[0, 0, 16, 12]]]


def test_xmls_beside_the_images_are_read_from_the_data_folder(tmp_path):
    write_photos(tmp_path / "train", {"a": 1, "b": 1})
    write_photos(tmp_path / "val", {"a": 1, "b": 1})
    for name in "ab":
        write_text(
            tmp_path / "val" / name / "000.xml",
            f"<annotation><filename>000.png</filename><object><name>{name}</name><bndbox>"
            "<xmin>0</xmin><ymin>1</ymin><xmax>16</xmax><ymax>12</ymax></bndbox></object>"
            "</annotation>",
        )
    truth = Folder(tmp_path, boxes=tmp_path).truth("test")
    assert truth.starts.tolist() == [0, 1, 2]


def test_several_box_files_are_an_error_that_asks_which(photos):
    write_text(photos / "boxes.csv", CSV)
    write_text(photos / "boxes.json", "{}")
    with pytest.raises(DataError, match=r"several box files: .*boxes\.csv.*boxes\.json"):
        Folder(photos).truth("test")


@pytest.mark.parametrize(
    "row, message",
    [
        ("val/a/999.png,1,1,2,2,a", r"'val/a/999.png' \(.*boxes\.csv, line 2\)"),
        ("val/a/000.png,1,1,2,2,zebra", r"line 2: the label 'zebra'.*is not a class.*a, b"),
        (
            "val/a/000.png,1,1,2,2,b",
            r"line 2: the label 'b'.*class of its folder, 'a'.*Correct the label",
        ),
        ("val/a/000.png,3,1,2,2,a", r"line 2: the box has no area"),
        ("val/a/000.png,1,1,nan,2,a", r"line 2: .*not finite"),
        ("val/a/000.png,1,1,two,2,a", r"line 2: expected four numbers"),
        ("val/a/000.png,1,1,2", r"line 2: expected 6 fields, found 4"),
        ("../../etc/passwd.png,1,1,2,2,a", r"line 2: .*leads out of the data folder"),
        ("/etc/passwd.png,1,1,2,2,a", r"line 2: .*leads out of the data folder"),
        ("C:\\photos\\000.png,1,1,2,2,a", r"line 2: .*leads out of the data folder"),
        ("val/../../x/000.png,1,1,2,2,a", r"line 2: .*leads out of the data folder"),
        ("000.png,1,1,2,2,a", r"line 2: '000.png' fits 4 images"),
        ("val/a/000.png,0.1,0.1,0.9,1.0,a", r"seem to be relative"),
    ],
)
def test_a_wrong_box_is_an_error_that_says_where(photos, tmp_path_factory, row, message):
    for name in ("train/a/001.png", "train/b/001.png", "val/a/001.png", "val/b/001.png"):
        os.rename(photos / name, photos / name.replace("001", "only_" + name.replace("/", "_")))
    write_text(photos / "boxes.csv", CSV + row + "\n")
    with pytest.raises(DataError, match=message):
        Folder(photos).truth("test")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_names_match_whichever_way_accents_are_written(tmp_path, form):
    write_photos(tmp_path / "train", {"été": 1, "b": 1})
    write_photos(tmp_path / "val", {"été": 1, "b": 1})
    row = unicodedata.normalize(form, "val/été/000.png,1,1,2,2,été\n")
    write_text(tmp_path / "boxes.csv", CSV + row)
    assert len(Folder(tmp_path).truth("test").boxes) == 1


def test_absolute_and_windows_names_inside_the_folder_match(photos):
    write_text(
        photos / "boxes.csv", CSV + f"{photos}/val/a/000.png,1,1,2,2,a\nval\\b\\001.png,1,1,2,2,b\n"
    )
    assert Folder(photos).truth("test").starts.tolist() == [0, 1, 1, 1, 2]
