"""Contact sheets of splits with and without truth."""

import re
import subprocess
import sys

import cv2
import numpy as np
import pytest

from gc_net.data.splits import Split, Truth
from gc_net.datasets.creatures import Creatures
from gc_net.figures.contact_sheet import contact_sheet, save_sheet
from tests.datasets.samples import write_photos, write_text

RED = (224, 32, 32)


@pytest.fixture(scope="module")
def creatures():
    return Creatures(num_train=12, num_test=12)


def grey_split(sizes, names=("one", "two")):
    """Return a split of uniform grey images of the given (height, width)."""
    return Split(
        name="test",
        class_names=names,
        labels=np.arange(len(sizes), dtype=np.int32) % len(names),
        files=np.array([f"{index}.png".encode() for index in range(len(sizes))]),
        root="",
        read=lambda index: np.full((*sizes[index], 3), 128, np.uint8),
    )


@pytest.mark.parametrize("count, columns, grid", [(12, 5, (3, 5)), (3, 5, (1, 3)), (4, 2, (2, 2))])
def test_the_grid_is_exact(creatures, count, columns, grid):
    sheet = contact_sheet(creatures.split("test"), None, range(count), columns, cell=64)
    rows, cells = grid
    assert sheet.dtype == np.uint8
    assert sheet.shape == (rows * (64 + 26 + 10) + 10, cells * (64 + 10) + 10, 3)


def test_images_keep_their_proportions_and_stand_at_the_bottom():
    sheet = contact_sheet(grey_split([(50, 100), (100, 50)]), cell=80)
    first, second = (np.all(sheet[10:90, left : left + 80] == 128, -1) for left in (10, 100))
    assert first.sum() == 80 * 40 and first[40:].all()
    assert second.sum() == 80 * 40 and second[:, 20:60].all()


def test_boxes_are_red_and_where_they_belong():
    truth = Truth(
        boxes=np.array([(10, 20, 90, 60), (0, 0, 100, 100), (30, 30, 60, 60)], np.float32),
        starts=np.array([0, 2, 3]),
    )
    sheet = contact_sheet(grey_split([(100, 100), (100, 100)]), truth, cell=200)
    red = np.all(sheet == RED, axis=-1)
    first, second = red[10:210, 10:210], red[10:210, 220:420]
    rows, columns = np.nonzero(second)
    assert abs(rows.min() - 60) <= 1 and abs(rows.max() - 119) <= 1
    assert abs(columns.min() - 60) <= 1 and abs(columns.max() - 119) <= 1
    assert first[0].all() and first[-1].all(), "the box of the whole image can be seen"
    assert first[40, 25:175].all() and not first[100, 30:170].any()


def test_truth_without_boxes_for_an_image_leaves_it_as_it_is():
    truth = Truth(boxes=np.zeros((0, 4), np.float32), starts=np.array([0, 0]))
    split = grey_split([(40, 40)])
    np.testing.assert_array_equal(contact_sheet(split, truth), contact_sheet(split, None))


def test_outline_and_axis_are_drawn_where_known(creatures):
    split, truth = creatures.split("test"), creatures.truth("test")
    boxes_only = Truth(truth.boxes, truth.starts)
    masks_too = Truth(truth.boxes, truth.starts, mask=truth.mask)
    sheets = [
        contact_sheet(split, known, [0], cell=160) for known in (boxes_only, masks_too, truth)
    ]
    outline = np.any(sheets[0] != sheets[1], axis=-1)
    axis = np.any(sheets[1] != sheets[2], axis=-1)
    assert 50 < outline.sum() < 3000 and 30 < axis.sum() < 1000


@pytest.mark.parametrize("name", ["a very long name that cannot fit into the cell", "Käfer", ""])
def test_any_class_name_stays_within_its_cell(name):
    sheet = contact_sheet(grey_split([(40, 40)] * 2, names=(name,)), cell=80)
    text = np.any(sheet[-36:] < 200, axis=(0, 2))
    assert not text[:8].any() and not text[-8:].any()


def test_a_saved_sheet_takes_the_classes_in_turn(creatures, tmp_path):
    split = creatures.split("train")
    path = tmp_path / "sheet.png"
    assert save_sheet(str(path), split, None, count=4, columns=2, cell=48) == 4
    saved = cv2.imread(str(path))[..., ::-1]
    first = [int(np.flatnonzero(split.labels == label)[0]) for label in range(4)]
    np.testing.assert_array_equal(saved, contact_sheet(split, None, first, 2, 48))
    assert [file.name for file in tmp_path.iterdir()] == ["sheet.png"]
    assert save_sheet(str(path), split, count=100, cell=48) == 12


def test_bad_requests_are_explained(creatures, tmp_path):
    split = creatures.split("test")
    with pytest.raises(ValueError, match="No images to draw"):
        contact_sheet(split, indices=[])
    with pytest.raises(ValueError, match="columns=0"):
        contact_sheet(split, columns=0)
    with pytest.raises(ValueError, match=r"ends in \.png or \.jpg"):
        save_sheet(str(tmp_path / "sheet.tar"), split, count=1)
    assert not list(tmp_path.iterdir())


def test_an_unreadable_image_and_a_missing_folder_are_named_without_a_traceback(tmp_path):
    for name in ("cats", "dogs"):
        (tmp_path / name).mkdir()
        for number in range(2):
            (tmp_path / name / f"{number}.png").write_bytes(b"")
    command = [sys.executable, "-m", "tools.contact_sheet", "--dataset=folder"]
    for folder, words in [(tmp_path, r"cats/\d.png cannot be read"), ("absent", "does not exist")]:
        command += [f"--data_dir={folder}", f"--output={tmp_path / 'sheet.png'}"]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 2 and re.search(words, result.stderr)
        assert "Traceback" not in result.stderr


def test_the_tool_refuses_a_name_that_is_no_pictures_without_a_traceback(tmp_path):
    command = [sys.executable, "-m", "tools.contact_sheet", f"--output={tmp_path / 'sheet.tar'}"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2 and "ends in .png" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_tool_writes_a_sheet_of_the_default_dataset(tmp_path):
    path = tmp_path / "sheet.jpg"
    command = [sys.executable, "-m", "tools.contact_sheet", f"--output={path}", "--count=3"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Wrote 3 images" in result.stdout
    assert cv2.imread(str(path)).shape == (224 + 26 + 20, 3 * 234 + 10, 3)


def test_the_tool_takes_the_options_and_the_box_file_of_a_dataset(tmp_path):
    write_photos(tmp_path / "photos", {"cats": 4, "dogs": 4})
    boxes = "path,xmin,ymin,xmax,ymax\n"
    files = [f"{name}/00{number}.png" for name in ("cats", "dogs") for number in range(4)]
    boxes += "".join(f"{file},2,2,9,9\n" for file in files)
    write_text(tmp_path / "boxes.csv", boxes)
    path = tmp_path / "sheet.png"
    command = [sys.executable, "-m", "tools.contact_sheet", f"--output={path}", "--cell=160"]
    command += ["--dataset=folder", f"--data_dir={tmp_path / 'photos'}", "--split=train"]

    def red_of(*more):
        result = subprocess.run([*command, *more], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        found = re.search(r"Wrote (\d) images", result.stdout)[1]
        return int(found), (cv2.imread(str(path))[..., ::-1] == RED).all(axis=2).any()

    # Of four images of a class, a quarter or a half is kept for testing.
    assert red_of("--dataset_options=test_fraction=0.25") == (6, False)
    given = red_of("--dataset_options=test_fraction=0.5", f"--boxes={tmp_path / 'boxes.csv'}")
    assert given == (4, True)
