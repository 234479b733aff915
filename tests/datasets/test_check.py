import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

from gc_net import datasets
from gc_net.data.splits import Split
from gc_net.datasets.check import check_dataset, find_duplicates, measure
from gc_net.datasets.folder import Folder
from tests.datasets.samples import real_data, write_image, write_photos, write_text


@pytest.fixture
def photos(tmp_path):
    root = tmp_path / "photos"
    write_photos(root / "train", {"cats": 4, "dogs": 3})
    write_photos(root / "val", {"cats": 2, "dogs": 2})
    return root


def problems(root, **options):
    report = check_dataset(Folder(root, **options), workers=2)
    return dict(report.problems)


RECIPE = pathlib.Path(__file__).parents[2] / "recipes" / "photos.flags"


def run_tool(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tools.check", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=pathlib.Path(__file__).parents[2],
    )


def test_a_sound_dataset_has_no_problems(photos):
    write_image(photos / "train" / "cats" / "large.png", height=50, width=70, seed=99)
    report = check_dataset(Folder(photos))
    assert report.problems == []
    train = report.splits["train"]
    assert train.class_counts == [5, 3] and train.num_images == 8
    assert train.sizes["smallest"][1:] == (16, 12)
    assert train.sizes["largest"] == ("train/cats/large.png", 70, 50)
    text = report.text()
    assert "train: 8 images" in text and "images a class: 3 to 5, median 4" in text
    assert text.endswith("No problems found.")


def test_every_unreadable_file_is_named_with_its_reason(photos):
    broken = {
        "empty.jpg": b"",
        "text.jpg": b"this is not an image",
        "cut.png": (photos / "train/cats/000.png").read_bytes()[:60],
    }
    for name, content in broken.items():
        (photos / "train" / "dogs" / name).write_bytes(content)
    (photos / "train" / "dogs" / "gone.png").symlink_to(photos / "nowhere.png")
    (photos / "train" / "dogs" / "loop.png").symlink_to("loop.png")
    split = Folder(photos).split("train")
    found = {split.file(index): reason for index, reason in measure(split, workers=2)[1]}
    assert set(found) == {f"train/dogs/{name}" for name in (*broken, "gone.png", "loop.png")}
    assert all(found.values())
    sizes, _ = measure(split)
    assert np.count_nonzero(sizes[:, 0] == 0) == 5
    assert len(problems(photos)["unreadable train images"]) == 5


def test_what_a_training_would_stop_at_is_said_before(photos, monkeypatch):
    write_image(photos / "train" / "owls" / "0.png", height=20, width=30, seed=99)
    for name in ("b.HEIC", "a.nef", ".hidden.nef"):
        (photos / "train" / "dogs" / name).write_bytes(b"?")
    for module in ("data.index", "datasets.folder"):  # as without the plug-in for HEIC
        monkeypatch.setattr(f"gc_net.{module}.IMAGE_EXTENSIONS", {".png", ".jpg"})
    with pytest.warns(UserWarning, match="Left out"):
        dataset = Folder(photos)
    sizes = {"classifier": 5, "warmup": 10, "detector": 8}
    found = dict(check_dataset(dataset, workers=2, batch_sizes=sizes, num_folds=2).problems)
    assert found == {
        "too few training images": [
            "8 images in 2 folds, 4 a classifier, fewer than a batch of 5: add some, or give "
            "--classifier_batch_size=2",
            "8 images, fewer than a batch of 10: add some, or give --warmup_batch_size=4",
        ],
        "classes with one training image": ["owls: add images, or leave the class out"],
        "pictures of kinds that are not read; convert them to JPEG, or `pip install pillow-heif` "
        "for HEIC": ["train/dogs/a.nef", "train/dogs/b.HEIC"],
    }
    enough = dict(check_dataset(dataset, workers=2, batch_sizes={"classifier": 8}).problems)
    assert "too few training images" not in enough


def test_order_is_kept_over_many_chunks(monkeypatch):
    monkeypatch.setattr("gc_net.datasets.check._CHUNK", 7)
    count = 50
    split = Split(
        name="train",
        class_names=("a",),
        labels=np.zeros(count, np.int32),
        files=np.array([b"x"] * count),
        root="nowhere",
        read=lambda index: np.zeros((index + 1, 2, 3), np.uint8),
    )
    sizes, failures = measure(split, workers=3)
    assert sizes[:, 0].tolist() == list(range(1, count + 1)) and failures == []


def test_a_file_in_both_splits_is_found_by_its_contents(photos):
    shutil.copy(photos / "train/cats/000.png", photos / "val/cats/renamed.png")
    (found,) = problems(photos)["files in both splits"]
    assert found == "train: train/cats/000.png = test: val/cats/renamed.png"


def test_a_file_under_two_labels_is_found(photos):
    shutil.copy(photos / "train/cats/000.png", photos / "train/dogs/000 copy.png")
    (found,) = problems(photos)["files under two labels"]
    assert found == "train: train/cats/000.png = train: train/dogs/000 copy.png"


def test_a_repeated_file_of_one_class_is_counted_without_being_a_problem(photos):
    for number in range(3):
        shutil.copy(photos / "train/cats/000.png", photos / f"train/cats/copy {number}.png")
    report = check_dataset(Folder(photos))
    assert report.num_duplicates_within == 3 and report.problems == []
    assert "files that repeat another of their class: 3" in report.text()


def test_files_of_equal_size_but_other_contents_are_not_duplicates(photos):
    for number, pixel in enumerate(b"abc"):
        (photos / f"train/cats/x{number}.bmp").write_bytes(bytes([pixel]) * 1000)
    splits = [Folder(photos).split(name) for name in ("train", "test")]
    assert find_duplicates(splits) == ([], [], 0)


def test_only_files_of_equal_size_are_hashed(photos, monkeypatch):
    hashed = []
    monkeypatch.setattr(
        "gc_net.datasets.check._hash", lambda path: hashed.append(os.path.basename(path)) or 1
    )
    for path in photos.rglob("*.png"):
        path.unlink()
    sizes = {"train/cats/a.png": 5, "train/dogs/b.png": 6, "val/cats/c.png": 6, "val/dogs/d.png": 0}
    for name, size in sizes.items():
        (photos / name).write_bytes(b"x" * size)
    splits = [Folder(photos).split(name) for name in ("train", "test")]
    assert len(find_duplicates(splits)[0]) == 1
    assert sorted(hashed) == ["b.png", "c.png"]


def test_boxes_are_held_against_their_images(photos):
    rows = [
        "path,xmin,ymin,xmax,ymax",
        "val/cats/000.png,0,0,16,12",
        "val/cats/001.png,-0.5,0,16.9,12.5",  # within the tolerance
        "val/dogs/000.png,5,5,20,12",
        "val/dogs/000.png,-3,0,5,5",
        "val/dogs/000.png,1,1,5,5",
        "train/cats/000.png,1,1,5,99",
    ]
    write_text(photos / "boxes.csv", "\n".join(rows))
    found = problems(photos)
    assert found["test boxes outside their image"] == [
        "val/dogs/000.png: box [5.0, 5.0, 20.0, 12.0], image 16 × 12",
        "val/dogs/000.png: box [-3.0, 0.0, 5.0, 5.0], image 16 × 12",
    ]
    assert len(found["train boxes outside their image"]) == 1
    # Training images need no box.
    assert found["test images without a box"] == ["val/dogs/001.png"]
    assert set(found) == {
        "test boxes outside their image",
        "train boxes outside their image",
        "test images without a box",
    }


def test_a_box_of_an_unreadable_image_is_not_called_outside(photos):
    (photos / "val/cats/000.png").write_bytes(b"x")
    write_text(photos / "boxes.csv", "path,xmin,ymin,xmax,ymax\nval/cats/000.png,0,0,16,12\n")
    assert "test boxes outside their image" not in problems(photos)


def test_a_box_file_that_cannot_be_read_is_a_problem_and_no_end(photos):
    write_text(photos / "boxes.csv", "nonsense")
    found = problems(photos)
    assert "boxes.csv, line 1" in found["test boxes that could not be read"][0]


def test_the_report_names_a_few_and_the_json_all(photos, tmp_path):
    for number in range(8):
        (photos / f"val/cats/broken {number}.jpg").write_bytes(b"")
    report = check_dataset(Folder(photos))
    text = report.text(all_classes=True, examples=3)
    assert "unreadable test images: 8" in text and "and 5 more" in text
    assert "broken 2" in text and "broken 3" not in text
    assert "cats         4       10" in text
    report.save(tmp_path / "new" / "report.json")
    content = json.loads((tmp_path / "new" / "report.json").read_text())
    assert len(content["splits"]["test"]["unreadable"]) == 8
    assert content["problems"] == {"unreadable test images": 8}
    assert os.listdir(tmp_path / "new") == ["report.json"]


def test_drawn_images_are_checked_too():
    report = check_dataset(datasets.get("creatures", num_train=20, num_test=10))
    assert report.problems == [] and report.splits["test"].num_boxes == 10


def test_the_tool_tells_by_its_exit_status(photos, tmp_path):
    sound = run_tool("--data_dir", photos, "--classifier_batch_size=3", "--detector_batch_size=3")
    assert (sound.returncode, sound.stderr) == (0, "")
    assert "No problems found." in sound.stdout
    (photos / "train/cats/000.png").write_bytes(b"")
    # As a training by the same recipe would.
    recipe = run_tool("--flagfile", RECIPE, "--data_dir", photos)
    assert recipe.returncode == 1 and "--warmup_batch_size=" in recipe.stdout
    broken = run_tool("--data_dir", photos, "--json", tmp_path / "report.json")
    assert broken.returncode == 1 and "unreadable train images: 1" in broken.stdout
    assert (tmp_path / "report.json").exists()
    absent = run_tool("--data_dir", tmp_path / "absent")
    assert absent.returncode == 2 and "does not exist" in absent.stderr
    assert "Traceback" not in absent.stderr
    wrong = run_tool("--dataset=cub", "--data_dir", photos, "--boxes=x.csv")
    assert wrong.returncode == 1 and "leave out --boxes" in wrong.stderr + wrong.stdout


def test_the_tool_says_before_the_work_where_no_report_can_be_written(photos, tmp_path):
    for place in (photos, photos / "val" / "cats" / "000.png" / "report.json"):
        refused = run_tool("--data_dir", photos, "--json", place)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith(f"--json={place} cannot be written: ")
        assert len(refused.stderr.splitlines()) == 1
    # A place that will do is left as it was until there is a report.
    (tmp_path / "report.json").write_text("an older one")
    absent = run_tool("--data_dir", tmp_path / "absent", "--json", tmp_path / "report.json")
    assert absent.returncode == 2
    assert (tmp_path / "report.json").read_text() == "an older one"


def test_no_dataset_imports_tensorflow():
    code = (
        "import sys; import gc_net.datasets as d; [d.DATASETS.get(name) for name in d.DATASETS]; "
        "import gc_net.datasets.check, gc_net.datasets.cub_copy; "
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.data
@pytest.mark.parametrize("name, folder", [("cub", "CUB_200_2011"), ("ilsvrc", "ILSVRC")])
def test_the_real_copies_are_readable_and_share_no_file_between_splits(name, folder):
    report = check_dataset(datasets.get(name, data_dir=real_data(folder)))
    kinds = {what for what, _ in report.problems}
    # Some of CUB's own boxes reach a few pixels over the edge.
    assert kinds <= {"train boxes outside their image", "test boxes outside their image"}
    assert all(not split.unreadable for split in report.splits.values())
