import hashlib
import io
import os
import pathlib
import subprocess
import sys
import tarfile

import pytest

from gc_net.data.splits import DataError
from gc_net.datasets import cub_copy
from gc_net.datasets.cub import CUB
from gc_net.datasets.cub_copy import prepare, unpack, verify_archive, verify_copy
from tests.datasets.samples import real_data, write_image, write_text


@pytest.fixture(autouse=True)
def a_small_original(monkeypatch):
    """Pretend that the whole dataset has two classes of three images."""
    monkeypatch.setattr(cub_copy, "NUM_CLASSES", 2)
    monkeypatch.setattr(cub_copy, "NUM_IMAGES", {"train": 4, "test": 2})


@pytest.fixture
def copy(tmp_path):
    folder = tmp_path / "CUB_200_2011"
    files = [
        f"00{c}.{name}/{n}.jpg" for c, name in ((1, "Auk"), (2, "Bee_eater")) for n in range(3)
    ]
    lists = {
        "images.txt": [f"{i} {file}" for i, file in enumerate(files, 1)],
        "image_class_labels.txt": [f"{i} {file[2]}" for i, file in enumerate(files, 1)],
        "train_test_split.txt": [f"{i} {int(i % 3 > 0)}" for i in range(1, 7)],
        "bounding_boxes.txt": [f"{i} 1.0 2.0 3.0 4.0" for i in range(1, 7)],
        "classes.txt": ["1 001.Auk", "2 002.Bee_eater"],
    }
    for name, lines in lists.items():
        write_text(folder / name, "\n".join(lines) + "\n")
    for seed, file in enumerate(files):
        write_image(folder / "images" / file, seed=seed)
    return folder


def pack(folder, path):
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder, arcname="CUB_200_2011")
    return path


def pack_member(path, **attributes):
    member = tarfile.TarInfo("CUB_200_2011/images.txt")
    for name, value in attributes.items():
        setattr(member, name, value)
    with tarfile.open(path, "w:gz") as tar:
        tar.addfile(member, io.BytesIO(b""))
    return path


def test_a_complete_copy_is_called_complete(copy):
    findings = prepare(data_dir=copy.parent)
    assert findings.problems == []
    assert findings.text().endswith("The copy is complete.")
    assert "  train images on disk: 4 of 4" in findings.lines


def test_missing_images_are_counted_by_split_and_named(copy):
    (copy / "images/001.Auk/0.jpg").unlink()
    (copy / "images/002.Bee_eater/2.jpg").unlink()
    problems = verify_copy(copy).problems
    assert "train images on disk: 3 of 4, 1 missing" in problems
    assert "test images on disk: 1 of 2, 1 missing" in problems
    assert "train images listed but not on disk: 001.Auk/0.jpg" in problems
    assert len(problems) == 4


def test_a_partial_list_says_what_it_lacks(copy):
    for path in copy.glob("*.txt"):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("3 ")]
        write_text(path, "\n".join(lines))
    assert verify_copy(copy).problems == [
        "test images in the lists: 1 of 2, 1 missing",
        "test images on disk: 1 of 2, 1 missing",
        "boxes: 5 of 6, 1 missing",
    ]
    assert len(CUB(copy).split("test")) == 1


@pytest.mark.parametrize("name", cub_copy.LISTS)
def test_a_missing_list_is_named(copy, name):
    (copy / name).unlink()
    assert f"{name} is missing" in verify_copy(copy).problems


def test_lists_that_contradict_each_other_are_found(copy):
    path = copy / "image_class_labels.txt"
    write_text(path, path.read_text().replace("2 1", "2 2"))
    (problem,) = verify_copy(copy).problems
    assert problem == "1 images whose label is not that of their folder: 001.Auk/1.jpg"


def test_empty_image_files_are_named(copy):
    (copy / "images/001.Auk/1.jpg").write_bytes(b"")
    assert verify_copy(copy).problems == ["1 image files of zero bytes: 001.Auk/1.jpg"]


@pytest.mark.parametrize("name", ["bounding_boxes.txt", "train_test_split.txt"])
def test_a_malformed_list_is_a_problem_with_its_line(copy, name):
    write_text(copy / name, (copy / name).read_text().replace("4 1", "4 x"))
    (problem,) = verify_copy(copy).problems
    assert f"{name}, line 4" in problem


def test_a_folder_that_is_no_copy_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"holds no images\.txt"):
        prepare(data_dir=tmp_path)


def test_an_archive_is_unpacked_and_then_verified(copy, tmp_path):
    archive = pack(copy, tmp_path / "CUB_200_2011.tgz")
    findings = prepare(archive=archive, output=tmp_path / "out")
    # The archive is not the published one; what was in it is complete.
    (problem,) = findings.problems
    assert "bytes of the archive" in problem and "1,150,585,339" in problem
    assert os.listdir(tmp_path / "out") == ["CUB_200_2011"]
    assert len(CUB(tmp_path / "out").split("train")) == 4


def test_the_checksum_tells_the_published_archive(copy, tmp_path, monkeypatch):
    archive = pack(copy, tmp_path / "x.tgz")
    monkeypatch.setattr(cub_copy, "ARCHIVE_BYTES", archive.stat().st_size)
    assert any("SHA-256" in problem for problem in verify_archive(archive).problems)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    monkeypatch.setattr(cub_copy, "ARCHIVE_SHA256", digest)
    assert verify_archive(archive).problems == []


def test_an_existing_copy_is_not_overwritten(copy, tmp_path):
    archive = pack(copy, tmp_path / "x.tgz")
    with pytest.raises(DataError, match="exists already"):
        unpack(archive, tmp_path)
    assert (copy / "images.txt").exists()


@pytest.mark.parametrize(
    "attributes",
    [
        {"name": "../outside.txt"},
        {"name": "CUB_200_2011/../../outside.txt"},
        {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
        {"type": tarfile.SYMTYPE, "linkname": "../../outside.txt"},
        {"type": tarfile.LNKTYPE, "linkname": "../outside.txt"},
        {"type": tarfile.CHRTYPE},
        {"type": tarfile.FIFOTYPE},
    ],
)
def test_an_archive_that_reaches_outside_is_refused(tmp_path, attributes):
    archive = pack_member(tmp_path / "evil.tgz", **attributes)
    with pytest.raises(DataError, match="could not be unpacked"):
        unpack(archive, tmp_path / "in" / "out")
    assert os.listdir(tmp_path / "in" / "out") == []
    assert not list(tmp_path.rglob("outside.txt"))


def test_an_absolute_name_stays_inside(tmp_path):
    archive = pack_member(tmp_path / "evil.tgz", name="/CUB_200_2011/images.txt")
    unpack(archive, tmp_path / "out")
    assert (tmp_path / "out/CUB_200_2011/images.txt").exists()


def test_a_truncated_archive_leaves_nothing_behind(copy, tmp_path):
    archive = pack(copy, tmp_path / "x.tgz")
    archive.write_bytes(archive.read_bytes()[:-500])
    with pytest.raises(DataError, match="could not be unpacked"):
        unpack(archive, tmp_path / "out")
    assert os.listdir(tmp_path / "out") == []


def test_an_archive_of_something_else_says_what_it_holds(tmp_path):
    archive = pack_member(tmp_path / "x.tgz", name="photos/a.txt")
    with pytest.raises(DataError, match="holds no folder CUB_200_2011; found photos"):
        unpack(archive, tmp_path / "out")
    write_text(tmp_path / "text.tgz", "not an archive")
    with pytest.raises(DataError, match="could not be unpacked"):
        unpack(tmp_path / "text.tgz", tmp_path / "out")
    with pytest.raises(DataError, match="cannot be read"):
        verify_archive(tmp_path / "absent.tgz")


def run_tool(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tools.prepare_cub", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=pathlib.Path(__file__).parents[2],
    )


def test_the_tool_names_what_the_copy_lacks_of_the_original(copy):
    result = run_tool("--data_dir", copy)
    assert result.returncode == 1
    assert "! test images on disk: 2 of 5,794, 5,792 missing" in result.stdout


@pytest.mark.parametrize(
    "arguments", [[], ["--data_dir=a", "--archive=b"], ["--data_dir=a", "--output=b"]]
)
def test_the_tool_asks_for_one_source(arguments):
    result = run_tool(*arguments)
    assert result.returncode != 0 and "Traceback" not in result.stderr


@pytest.mark.data
def test_the_real_copy_is_partial_in_its_test_images_alone(monkeypatch):
    monkeypatch.undo()
    assert verify_copy(real_data("CUB_200_2011")).problems == [
        "test images in the lists: 2,846 of 5,794, 2,948 missing",
        "test images on disk: 2,846 of 5,794, 2,948 missing",
        "boxes: 8,840 of 11,788, 2,948 missing",
    ]
