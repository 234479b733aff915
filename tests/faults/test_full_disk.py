"""A disk that fills up while something is written: a clear error, nothing half, and it goes on."""

import errno
import os

import numpy as np
import pytest

import gc_net
from gc_net.datasets.creatures import Creatures
from gc_net.export.saved_model import export_saved_model
from gc_net.prediction import formats
from gc_net.prediction.predict_files import predict_files
from gc_net.prediction.prediction import ClassScore, Prediction
from gc_net.stages.config import DataConfig
from gc_net.stages.run_folder import RunError
from gc_net.stages.runner import train
from gc_net.training.checkpoint import Checkpoints
from gc_net.training.data import TrainingData
from gc_net.training.features import Features, num_bytes
from tests.faults import LONG, amount
from tests.faults.disks import small_disk
from tests.models import localizer_of
from tests.prediction.models import CLASS_NAMES, encode, noise, varied_model
from tests.training.samples import assert_same_weights, small_config, small_options

KINDS = pytest.mark.parametrize("kind", ["tmpfs", "limit"])
# Where much is done for one write, the short form is content with the kind that needs no rights.
SOME_KINDS = pytest.mark.parametrize("kind", amount(["limit"], ["tmpfs", "limit"]))
MESSAGE = {
    "tmpfs": r"The disk is full: .*Free some space and run the same command again",
    "limit": r"cannot be written: File too large",
}
ERRNO = {"tmpfs": errno.ENOSPC, "limit": errno.EFBIG}


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    localizer_of(varied_model(), CLASS_NAMES).save(folder)
    return folder


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@KINDS
def test_a_checkpoint_that_does_not_fit_leaves_the_one_before(kind, tmp_path):
    disk = tmp_path / "disk"
    checkpoints = Checkpoints(str(disk))
    small, large = {"a": np.arange(10)}, {"a": np.zeros(2**18)}
    with small_disk(kind, disk, 2**20) as lift:
        checkpoints.save(1, small, {"step": 1})
        with pytest.raises(RunError, match=MESSAGE[kind]):
            checkpoints.save(2, large, {"step": 2})
        assert names(disk) == ["step-000000001.npz"]
        assert checkpoints.load()[1] == {"step": 1}
        lift()
        checkpoints.save(2, large, {"step": 2})
        assert checkpoints.load()[1] == {"step": 2}


@KINDS
def test_features_that_do_not_fit_are_an_error_and_no_end_of_the_process(kind, tmp_path):
    split = Creatures(num_train=9, num_test=2, image_size=40, num_classes=3).split("train")
    data = TrainingData(split, DataConfig(image_size=32), seed=3)
    network = gc_net.Detector("tiny", "rectangle", 32, head="edges", weights=None)
    indices = np.arange(9)
    disk = tmp_path / "disk"
    assert num_bytes(network, len(indices)) > 2**15
    with small_disk(kind, disk, 2**15) as lift:
        with pytest.raises(RunError, match=MESSAGE[kind]):
            Features(str(disk / "features"), network, data, indices)
        lift()
        found = Features(str(disk / "features"), network, data, indices)
        assert all(np.isfinite(maps).all() for maps in found.take(np.arange(18)))


@SOME_KINDS
def test_training_that_runs_out_of_space_goes_on_to_the_same_end(kind, tmp_path):
    config = small_config()
    stages = ("classifier",)
    options = {"checkpoint_steps": 1, "cache_dir": "none"}
    train(config, small_options(tmp_path / "reference", **options), stages)
    disk = tmp_path / "disk"
    # A checkpoint of the tiny classifier has 80 kB, and two are kept while a third is written.
    with small_disk(kind, disk, 150_000 if kind == "tmpfs" else 50_000) as lift:
        with pytest.raises(RunError, match=MESSAGE[kind]):
            train(config, small_options(disk, **options), stages)
        lift()
        train(config, small_options(disk, **options), stages)
        assert_same_weights(tmp_path / "reference/classifier/model", disk / "classifier/model")
        assert not [name for name in names(disk) if name.endswith(".partial")]


@KINDS
def test_a_saved_model_that_does_not_fit_leaves_the_one_before(kind, tmp_path):
    disk = tmp_path / "disk"
    localizer = localizer_of(varied_model(), ["a" * 30_000] * 3)
    with small_disk(kind, disk, 2**16):
        with pytest.raises(OSError) as caught:
            localizer.save(disk)
        assert caught.value.errno == ERRNO[kind]
        with pytest.raises(ValueError, match="No model in"):
            gc_net.load(disk)
        assert not [name for name in names(disk) if name.endswith(".partial")]


@SOME_KINDS
def test_an_export_that_does_not_fit_leaves_no_version(kind, model_dir, tmp_path):
    disk = tmp_path / "disk"
    with small_disk(kind, disk, 2**16) as lift:
        with pytest.raises(OSError, match=r"1 could not be written: .*(No space|too large)"):
            export_saved_model(model_dir, disk / "birds")
        assert names(disk) == []
        if LONG:
            lift()
            folder, _ = export_saved_model(model_dir, disk / "birds")
            assert os.path.basename(folder) == "1"


@KINDS
def test_predictions_that_do_not_fit_are_kept_as_far_as_they_do_and_go_on(
    kind, model_dir, tmp_path
):
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(12):
        (photos / f"{number:02d}.png").write_bytes(encode(noise(20, 30, number)))
    expected = predict_files(model_dir, photos, tmp_path / "whole", batch_size=4)
    disk = tmp_path / "disk"
    output = disk / "labels"
    with small_disk(kind, disk, 4096) as lift:  # one page of memory, about eight predictions
        with pytest.raises(OSError) as caught:
            predict_files(model_dir, photos, output, batch_size=4)
        assert caught.value.errno == ERRNO[kind]
        assert not (output / "coco.json").exists()
        lift()
        summary = predict_files(model_dir, photos, output, batch_size=4)
        assert 0 < summary.num_new < 12
        with open(summary.path) as found, open(expected.path) as whole:
            assert found.read() == whole.read()


@KINDS
def test_a_label_file_that_does_not_fit_leaves_the_one_before(kind, tmp_path):
    disk = tmp_path / "disk"
    prediction = Prediction(
        size=(20, 30),
        shape="rectangle",
        coefficients=(0.5, 0.5, 0.2, 0.2),
        box_xyxy=(12.0, 8.0, 18.0, 12.0),
        corners=((12.0, 8.0), (18.0, 8.0), (18.0, 12.0), (12.0, 12.0)),
        ellipse=None,
        classes=(ClassScore(0, CLASS_NAMES[0], 0.9),),
    )
    results = [(f"{number}.jpg", prediction) for number in range(500)]
    for label_format in ("coco", "csv", "label_studio"):
        with small_disk(kind, disk, 2**15):
            write = formats.get(label_format).write
            path = write(str(disk), results[:1], CLASS_NAMES)
            with open(path, "rb") as file:
                before = file.read()
            with pytest.raises(OSError) as caught:
                write(str(disk), results, CLASS_NAMES)
            assert caught.value.errno == ERRNO[kind]
            with open(path, "rb") as file:
                assert file.read() == before
            assert not [name for name in names(disk) if name.endswith(".partial")]
