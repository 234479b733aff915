import json
import os

import cv2
import numpy as np
import pytest
import tensorflow as tf

from gc_net.export import versions, warmup
from gc_net.export.parity import ARRAYS, OF_PHOTOS, PHOTOS, REDUCED
from gc_net.export.saved_model import export_saved_model
from gc_net.localizer import load
from gc_net.training_record import TrainingRecord
from tests.models import localizer_of
from tests.prediction.models import CLASS_NAMES, noise, varied_model
from tests.processes import run_python


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    # Squashed to more than the networks see, as images are in training.
    record = TrainingRecord({"data": {"dataset": "none"}})
    localizer_of(varied_model(), CLASS_NAMES, resize_size=37, record=record).save(folder / "model")
    (folder / "evaluation").mkdir()
    (folder / "evaluation" / "metrics.json").write_text(json.dumps({"corloc": 12.5}))
    return folder


@pytest.fixture(scope="module")
def localizer(run):
    return load(run)


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    output = tmp_path_factory.mktemp("saved_models") / "birds"
    folder, differences = export_saved_model(run, output, top_k=2, license_text="CC0")
    return folder, differences, tf.saved_model.load(folder)


def plain(height, width, seed):
    """An image of one colour, which no two ways of squashing make different."""
    color = np.random.default_rng(seed).integers(0, 256, 3, dtype=np.uint8)
    return np.tile(color, (height, width, 1))


@pytest.mark.parametrize(("height", "width", "make"), [(37, 37, noise), (30, 80, plain)])
def test_all_signatures_agree_with_the_keras_model(exported, localizer, height, width, make):
    _, differences, served = exported
    outputs = {"boxes", "coefficients", "class_probabilities", "confidence"}
    # The drawn photos are large enough to be decoded at a reduced size.
    assert set(differences) == {*outputs, *OF_PHOTOS}
    # Of a photo's pixels, not relative to the image as the others.
    assert 0 <= differences[PHOTOS] < 1
    assert 0 <= differences[ARRAYS] < 1
    assert differences[REDUCED] > 0
    assert max(value for name, value in differences.items() if name not in OF_PHOTOS) < 1e-4
    # Again by another way, also on images that are not square, by name and in pixels.
    images = np.stack([make(height, width, seed) for seed in range(3)])
    scale = np.array([width, height])
    predictions = localizer.predict(images)
    for signature, values in {
        "serving_default": tf.cast(images, tf.float32),
        "serve_uint8": tf.constant(images),
        "serve_bytes": tf.stack([tf.io.encode_png(image) for image in images]),
    }.items():
        found = served.signatures[signature](values)
        for row, prediction in enumerate(predictions):
            box = found["boxes"][row].numpy() * np.tile(scale, 2)
            assert box == pytest.approx(prediction.box_xyxy, abs=1e-3)
            assert found["coefficients"][row].numpy() == pytest.approx(
                prediction.coefficients, abs=1e-4
            )
            outline = (found["outlines"][row].numpy() * scale).astype("float32")
            around = [*outline.min(axis=0), *outline.max(axis=0)]
            assert around == pytest.approx(prediction.box_xyxy, abs=0.2)
            assert cv2.contourArea(outline) == pytest.approx(
                cv2.contourArea(prediction.polygon().astype("float32")), rel=1e-3
            )
            names = [name.decode() for name in found["class_names"][row].numpy()]
            assert names == [score.name for score in prediction.classes[:2]]
            assert found["class_ids"][row].numpy().tolist() == [
                score.id for score in prediction.classes[:2]
            ]
            assert found["class_probabilities"][row].numpy() == pytest.approx(
                [score.probability for score in prediction.classes[:2]], abs=1e-4
            )
            assert float(found["confidence"][row]) == pytest.approx(prediction.confidence, abs=1e-4)


def test_files_of_different_sizes_go_through_one_request(exported, localizer):
    _, _, served = exported
    images = [noise(60, 90, 1), noise(45, 30, 2)]
    files = [cv2.imencode(".png", image[..., ::-1])[1].tobytes() for image in images]
    found = served.signatures["serve_bytes"](tf.constant(files))
    assert found["image_sizes"].numpy().tolist() == [[60, 90], [45, 30]]
    for row, prediction in enumerate(localizer.predict(images)):
        scale = np.tile(found["image_sizes"][row].numpy()[::-1], 2)
        # Resizing differs by a grey level or two from that outside the graph.
        assert found["boxes"][row].numpy() * scale == pytest.approx(prediction.box_xyxy, abs=3)


@pytest.mark.parametrize("batch", [0, 1, 5])
def test_the_batch_size_is_free(exported, batch):
    _, _, served = exported
    found = served.signatures["serving_default"](tf.zeros([batch, 10, 20, 3]))
    assert found["boxes"].shape == (batch, 4)
    assert found["image_sizes"].numpy().tolist() == [[10, 20]] * batch
    found = served.signatures["serve_bytes"](
        tf.constant([cv2.imencode(".jpg", noise(8, 8))[1].tobytes()] * batch, tf.string)
    )
    assert found["confidence"].shape == (batch,)


def test_class_names_and_a_model_card_go_along(exported):
    folder = exported[0]
    with open(os.path.join(folder, "assets", "class_names.txt"), encoding="utf-8") as file:
        assert file.read().splitlines() == list(CLASS_NAMES)
    with open(os.path.join(folder, "model_card.md"), encoding="utf-8") as file:
        card = file.read()
    for part in ("# birds", "rotated_ellipse", "CC0", '"corloc": 12.5', '"dataset": "none"'):
        assert part in card


def test_warm_up_requests_are_read_by_the_official_schema_and_can_be_served(exported):
    logs = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    folder, _, served = exported
    records = list(tf.data.TFRecordDataset(os.path.join(folder, warmup.WARMUP_FILE)))
    assert len(records) == 3
    for record in records:
        request = logs.PredictionLog.FromString(record.numpy()).predict_log.request
        assert request.model_spec.name == "birds"
        inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        served.signatures[request.model_spec.signature_name](
            **{name: tf.constant(value) for name, value in inputs.items()}
        )


def test_versions_count_up_and_none_is_ever_overwritten(tmp_path):
    for number in (1, 2):
        with versions.new_version(tmp_path / "m") as (temporary, final):
            assert not os.path.basename(temporary).isdecimal()
            assert not os.path.exists(final)
            os.mkdir(temporary)
        assert final.endswith(f"{os.sep}{number}")
    with (
        pytest.raises(FileExistsError, match="never changed"),
        versions.new_version(tmp_path / "m", 2) as (temporary, _),
    ):
        pass
    with versions.new_version(tmp_path / "m", 20) as (temporary, _):
        os.mkdir(temporary)
    assert versions.next_version(tmp_path / "m") == 21


def test_an_export_that_fails_leaves_nothing_behind(tmp_path):
    with (
        pytest.raises(RuntimeError),
        versions.new_version(tmp_path / "m") as (temporary, _),
    ):
        os.mkdir(temporary)
        raise RuntimeError
    assert os.listdir(tmp_path / "m") == []
    # A version that appeared meanwhile, even an empty one, stays as it is.
    with (
        pytest.raises(FileExistsError),
        versions.new_version(tmp_path / "m") as (temporary, final),
    ):
        os.mkdir(temporary)
        os.mkdir(final)
    assert os.listdir(tmp_path / "m") == ["1"]


def test_the_tool_says_in_a_line_that_an_export_differs_from_keras(run, tmp_path):
    code = (
        "from gc_net.export import parity; parity.compare_saved_model.__defaults__ = (-1.0,);"
        "from absl import app; from tools import export; app.run(export.main)"
    )
    ended = run_python(code, f"--model={run}", f"--output={tmp_path}/m")
    assert ended.returncode == 2, ended.stderr
    assert "differs from the Keras model" in ended.stderr and "Traceback" not in ended.stderr
    assert os.listdir(tmp_path / "m") == []
