import os

import cv2
import numpy as np
import pytest
import tensorflow as tf

from gc_net import parametrizations
from gc_net.data.decode import read_image
from gc_net.data.splits import DataError
from gc_net.data.transforms import squash
from gc_net.export.tflite import convert, export_tflite, read_squashed, run
from gc_net.localizer import load
from tests.models import localizer_of
from tests.prediction.models import CLASS_NAMES, IMAGE_SIZE, noise, varied_model
from tests.processes import run_tool

pytestmark = pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for seed in range(20):
        cv2.imwrite(str(folder / f"{seed:02}.png"), noise(40 + seed, 60, seed))
    (folder / "broken.png").write_bytes(b"")
    return folder


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    localizer_of(varied_model(), CLASS_NAMES).save(folder)
    return folder


@pytest.fixture(scope="module")
def localizer(model_dir):
    return load(model_dir)


@pytest.fixture(scope="module")
def exported(model_dir, photos, tmp_path_factory):
    output = tmp_path_factory.mktemp("tflite") / "birds"
    return export_tflite(model_dir, output, calibration_images=photos)


def content(folder, name):
    with open(os.path.join(folder, f"model_{name}.tflite"), "rb") as file:
        return file.read()


@pytest.mark.parametrize(("name", "tolerance"), [("float32", 1e-5), ("int8", 0.05)])
def test_a_tflite_file_agrees_with_the_keras_model(exported, localizer, photos, name, tolerance):
    folder, differences = exported
    images = read_squashed(photos, 5, IMAGE_SIZE)
    outputs = run(content(folder, name), images)
    for row, prediction in enumerate(localizer.predict(images)):
        assert outputs["boxes"][row] * IMAGE_SIZE == pytest.approx(
            prediction.box_xyxy, abs=tolerance * IMAGE_SIZE
        )
        assert outputs["coefficients"][row] == pytest.approx(prediction.coefficients, abs=tolerance)
        assert outputs["class_probabilities"][row, prediction.class_id] == pytest.approx(
            prediction.class_probability, abs=tolerance
        )
        assert outputs["confidence"][row] == pytest.approx(prediction.confidence, abs=4 * tolerance)
    assert differences[f"{name}, boxes"] <= tolerance
    assert differences[f"{name}, mean IoU of boxes"] > 1 - 4 * tolerance


def test_the_int8_file_computes_with_integers_and_is_smaller(exported, localizer):
    folder, differences = exported
    assert differences["int8, boxes"] > differences["float32, boxes"]
    saved = len(content(folder, "float32")) - len(content(folder, "int8"))
    # Three of four bytes of each weight that is a part of a filter, and these are most of them.
    weights = sum(int(np.prod(variable.shape)) for variable in localizer.variables)
    assert saved > 0.5 * 3 * weights
    interpreter = tf.lite.Interpreter(model_content=content(folder, "int8"))
    kernels = [
        detail["dtype"] for detail in interpreter.get_tensor_details() if len(detail["shape"]) == 4
    ]
    assert np.mean([kernel == np.int8 for kernel in kernels]) > 0.5


def test_the_card_and_the_class_names_go_along(exported):
    folder, _ = exported
    with open(os.path.join(folder, "model_card.md"), encoding="utf-8") as file:
        card = file.read()
    assert "model_int8.tflite" in card and "mean IoU" in card
    with open(os.path.join(folder, "class_names.txt"), encoding="utf-8") as file:
        assert file.read().splitlines() == list(CLASS_NAMES)


def test_integers_give_boxes_of_every_size_a_confidence():
    edges = parametrizations.get("edges")
    raw = np.full((300, 8), 0.05, "float32")  # also the deviations
    raw[:, :2], raw[:, 2:4] = 0.0, np.linspace(0.2, 1.0, 300)[:, None]
    module = tf.Module()
    module.serve = tf.function(
        lambda images: {"confidence": edges.expected_iou(edges.mean(images, images))},
        input_signature=[tf.TensorSpec([1, 8], tf.float32, "images")],
    )
    found = run(convert(module, raw), raw)["confidence"]
    np.testing.assert_allclose(found, edges.expected_iou(raw), atol=0.03)


def test_the_code_in_the_card_squashes_as_gc_net_does(exported, tmp_path):
    folder, _ = exported
    with open(os.path.join(folder, "model_card.md"), encoding="utf-8") as file:
        code = file.read().partition("```python\n")[2].partition("```")[0]
    recipe = {}
    exec(code, recipe)
    random = np.random.default_rng(0)
    for name, size in (("a.jpg", (300, 400)), ("b.png", (50, 90)), ("c.png", (20, 400))):
        image = cv2.add(noise(*size), random.integers(0, 90, (*size, 3), dtype=np.uint8))
        file = str(tmp_path / name)
        cv2.imwrite(file, image)
        expected = squash(read_image(file, target=IMAGE_SIZE), IMAGE_SIZE)
        assert np.array_equal(recipe["read_squashed"](file)[0], expected)


def test_calibration_images_are_spread_over_all_and_broken_ones_left_out(photos, tmp_path):
    assert len(read_squashed(photos, 100, 16)) == 20
    first, middle = read_squashed(photos, 3, 16)  # the last of the three is broken.png
    for image, seed in ((first, 0), (middle, 10)):
        assert np.array_equal(image[..., ::-1], squash(noise(40 + seed, 60, seed), 16))
    (tmp_path / "x.png").write_bytes(b"")
    with pytest.raises(DataError, match="None of the calibration images"):
        read_squashed(tmp_path, 3, 16)


def test_the_tool_exports_a_version(model_dir, tmp_path):
    command = ["export", f"--model={model_dir}", f"--output={tmp_path}/m", "--export_version=7"]
    ended = run_tool(*command)
    assert ended.returncode == 0, ended.stderr
    assert "boxes" in ended.stdout and "boxes of photos, in their pixels" in ended.stdout
    assert ended.stderr == ""
    assert os.listdir(tmp_path / "m") == ["7"]
    assert os.path.exists(tmp_path / "m" / "7" / "saved_model.pb")
    ended = run_tool(*command, "--num_calibration=3")
    assert ended.returncode != 0
    assert "--num_calibration is for --format=tflite" in ended.stdout + ended.stderr
    ended = run_tool(*command, "--num_calibration=3", "--format=tflite")
    assert ended.returncode != 0
    assert "--calibration_images, which are not given" in ended.stdout + ended.stderr
