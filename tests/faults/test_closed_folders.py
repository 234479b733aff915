"""Folders without permission, also for root, who is made nobody for the time being."""

import codecs
import tempfile
from pathlib import Path

import numpy as np
import pytest

import gc_net
from gc_net.data.cache import ImageCache
from gc_net.data.splits import DataError, ImageError
from gc_net.datasets.cub import CUB
from gc_net.datasets.folder import Folder
from gc_net.datasets.image_files import file_split
from gc_net.prediction.find_images import find_images
from gc_net.prediction.log import PredictionLog
from gc_net.stages import run_folder
from tests.data.encoded import encode, picture
from tests.faults.disks import without_rights
from tests.models import localizer_of
from tests.prediction.models import CLASS_NAMES, varied_model


@pytest.fixture
def folder(tmp_path):
    """A folder that others may look into; pytest's own are closed to them."""
    for path in (tmp_path, *tmp_path.parents):
        if path == Path(tempfile.gettempdir()):
            break
        path.chmod(0o755)
    return tmp_path


@pytest.fixture
def photos(folder):
    for name in ("cats", "dogs"):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(3):
            path = folder / "photos" / name / f"{number}.png"
            path.write_bytes(encode(".png", picture()))
    Folder(folder / "photos")  # imports what it needs: Python itself may lie where root alone reads
    return folder / "photos"


def test_an_unreadable_class_folder_is_named(photos):
    (photos / "dogs").chmod(0)
    with without_rights(), pytest.raises(DataError, match="dogs cannot be read: Permission denied"):
        Folder(photos)
    with without_rights(), pytest.raises((DataError, OSError), match="dogs"):
        find_images(str(photos))


def test_an_unreadable_image_is_an_error_of_its_own_and_of_no_other(photos):
    split = Folder(photos).split("train")
    (photos / split.file(1)).chmod(0)
    with without_rights():
        with pytest.raises(ImageError, match="cannot be opened: Permission denied"):
            split.read(1)
        assert split.read(0).shape == (16, 24, 3)


def test_an_unreadable_list_is_named(folder):
    (folder / "images").mkdir()
    (folder / "images.txt").write_text("1 a/b.jpg\n")
    (folder / "classes.txt").write_text("1 a\n")
    (folder / "images.txt").chmod(0)
    codecs.lookup("utf-8-sig")  # Python reads these from files of its own, see `photos`
    with (
        without_rights(),
        pytest.raises(DataError, match=r"images\.txt cannot be read: Permission"),
    ):
        CUB(folder)


def test_an_unwritable_work_dir_is_an_error_that_says_what_to_do(folder):
    message = "cannot be written: Permission denied.*--work_dir"
    with (
        without_rights(),
        pytest.raises(run_folder.RunError, match=message),
        run_folder.locked(str(folder / "run")),
    ):
        pass


def test_an_unwritable_cache_is_an_error_that_says_what_to_do(photos):
    files = [f"cats/{number}.png" for number in range(3)]
    split = file_split("train", ("cats",), np.zeros(3), files, str(photos))
    with without_rights(), pytest.raises(DataError, match=r"cannot be written.*another folder"):
        ImageCache(photos / "cache", split, 16)


def test_an_unreadable_model_and_an_unwritable_output_are_system_errors_with_a_name(folder):
    localizer_of(varied_model(), CLASS_NAMES).save(folder / "model")
    (folder / "model" / "weights.npz").chmod(0)
    with without_rights(), pytest.raises((ValueError, OSError), match=r"weights\.npz"):
        gc_net.load(folder / "model")
    with without_rights(), pytest.raises(PermissionError, match="labels"):
        PredictionLog(str(folder / "labels"), {})
