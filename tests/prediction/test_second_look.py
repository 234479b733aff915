"""The second look: what it changes, what it leaves as it is, and what happens when it fails."""

import os

import cv2
import keras
import numpy as np
import pytest
from keras import ops

import gc_net
from gc_net.data import crops
from gc_net.data.transforms import squash
from gc_net.localizer import Localizer
from gc_net.prediction import second_look
from gc_net.prediction.predict_files import predict_files
from tests.data import encoded
from tests.models import localizer_of
from tests.prediction.models import (
    CLASS_NAMES,
    IMAGE_SIZE,
    always_say,
    encode,
    noise,
    tiny_model,
    varied_model,
)

pytestmark = pytest.mark.usefixtures("eager")

LOOK = 1.3
BLUE, RED = 0, 1


@pytest.fixture(scope="module")
def _varied():
    keras.utils.set_random_seed(0)
    return localizer_of(varied_model(), CLASS_NAMES)


@pytest.fixture
def varied(_varied):
    """A function of a look to a localizer, of the same weights, that has it."""

    return lambda second_look: _varied.replace(second_look=second_look)


class ColorReader:
    """A classifier that compares red with blue: class 0 is blue, class 1 red, class 2 neither."""

    image_size = IMAGE_SIZE
    normalizer = keras.layers.Identity()  # not that of the detector, so no layer is shared
    num_classes = len(CLASS_NAMES)

    def normalize(self, images):
        return ops.cast(images, "float32")

    def from_normalized(self, normalized, training=False):
        mean = ops.mean(normalized, axis=(1, 2)) / 25.0  # [B, 3]
        return ops.stack([mean[:, 2], mean[:, 0], 0 * mean[:, 0]], axis=-1)


def color_reader(look, coefficients):
    """A localizer that says `coefficients` of every image and reads its colour."""
    model = tiny_model("rectangle")
    always_say(model, coefficients=coefficients)
    parts = model.detector, model.generator, ColorReader()
    return Localizer(*parts, CLASS_NAMES, second_look=look)


def small_red_object():
    """A blue image, 90 × 140, with a small red object in the upper right corner."""
    image = np.zeros((90, 140, 3), np.uint8)
    image[..., 2] = 60
    image[5:20, 110:135] = (250, 0, 0)
    return image, [122.5 / 140, 12.5 / 90, 25 / 140, 15 / 90]


def test_a_small_object_is_told_from_its_surroundings_by_the_second_look():
    image, coefficients = small_red_object()
    (first,) = color_reader(0.0, coefficients).predict(image, confidence=False)
    (both,) = color_reader(LOOK, coefficients).predict(image, confidence=False)
    assert first.class_id == BLUE
    assert both.class_id == RED
    assert both.box_xyxy == first.box_xyxy and both.coefficients == first.coefficients


def classes(prediction):
    return np.array([score.probability for score in sorted(prediction.classes)])


@pytest.mark.parametrize("evidence", [False, True])
def test_classes_are_those_of_the_mean_and_the_shape_is_that_of_the_first_look(varied, evidence):
    images = [noise(60, 90, 1), noise(45, 30, 2), noise(32, 32, 3)]
    firsts = varied(0.0).predict(images, evidence=evidence)
    means = varied(LOOK).predict(images, evidence=evidence)
    for image, first, both in zip(images, firsts, means, strict=True):
        # By hand: the square around the box, out of the original.
        height, width = image.shape[:2]
        box = np.array(first.box_xyxy) / [width, height, width, height]
        side = min(1.0, LOOK * max(box[2] - box[0], box[3] - box[1]))
        corner = np.clip((box[:2] + box[2:]) / 2 - side / 2, 0, 1 - side)
        left, top = np.rint(corner * [width, height]).astype(int)
        right, bottom = np.rint((corner + side) * [width, height]).astype(int)
        close_up = squash(np.ascontiguousarray(image[top:bottom, left:right]), IMAGE_SIZE)
        (second,) = varied(0.0).predict(close_up)
        assert np.allclose(classes(both), (classes(first) + classes(second)) / 2, atol=1e-5)
        assert both.box_xyxy == first.box_xyxy and both.ellipse == first.ellipse
        assert both.confidence == first.confidence
        assert both.background_entropy == first.background_entropy
        if evidence and both.class_id == first.class_id:
            assert both.object_probability == first.object_probability


def test_the_evidence_asks_for_the_class_that_is_reported():
    image, coefficients = small_red_object()
    localizer = color_reader(LOOK, coefficients)
    (prediction,) = localizer.predict(image, evidence=True)
    squashed = squash(image, IMAGE_SIZE)[None].astype("float32")
    _, inside, _ = localizer.mask(squashed, np.float32([coefficients]))
    odds = np.exp(np.asarray(localizer.classifier.from_normalized(inside))[0])
    assert prediction.class_id == RED
    assert prediction.object_probability == pytest.approx(odds[RED] / odds.sum(), rel=1e-3)


def test_without_a_look_results_are_the_same_to_the_last_bit(varied):
    images = [noise(60, 90, 1), noise(45, 30, 2)]
    squashed = np.stack([squash(image, IMAGE_SIZE) for image in images])
    sizes = np.array([image.shape[:2] for image in images])
    localizer = varied(0.0)
    outputs = localizer.conclude(localizer.first_look(squashed))
    expected = localizer.predictions(outputs, sizes)
    assert localizer.predict(images) == expected
    assert varied(LOOK).predict(images) != expected


def test_files_bytes_and_arrays_are_looked_at_alike(varied, tmp_path):
    image = noise(60, 90, 4)
    path = os.path.join(tmp_path, "a.png")
    cv2.imwrite(path, image[..., ::-1])
    as_file, as_bytes, as_array = (
        varied(LOOK).predict(source)[0] for source in (path, encode(image), image)
    )
    assert as_file == as_bytes == as_array
    (plain,) = varied(0.0).predict(image)
    assert plain.classes != as_array.classes


@pytest.mark.parametrize("look", [0.0, LOOK])
def test_a_photo_that_was_taken_sideways_is_looked_at_upright(varied, tmp_path, look):
    sideways = noise(60, 50, 4)
    path = tmp_path / "turned.jpg"
    path.write_bytes(encoded.jpeg_with_exif(sideways, 6))  # to be turned a quarter clockwise
    pixels = cv2.imdecode(np.frombuffer(encoded.jpeg(sideways), np.uint8), cv2.IMREAD_COLOR_RGB)
    upright = np.ascontiguousarray(np.rot90(pixels, -1))
    as_file, as_bytes, expected, as_stored = varied(look).predict(
        [path, path.read_bytes(), upright, pixels]
    )
    assert as_file.size == (50, 60)
    for found in (as_file, as_bytes):
        assert found.size == expected.size
        assert found.box_xyxy == pytest.approx(expected.box_xyxy, abs=1e-3)
        assert np.allclose(classes(found), classes(expected), atol=1e-5)
    assert not np.allclose(classes(as_stored), classes(expected), atol=1e-3)
    assert as_stored.box_xyxy != pytest.approx(expected.box_xyxy, abs=1)


def test_an_image_that_is_gone_at_the_second_look_keeps_the_first(
    varied, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(crops, "KEPT_BYTES", 0)
    images = [noise(60, 90, 1), noise(45, 30, 2)]
    paths = [os.path.join(tmp_path, f"{number}.png") for number in range(2)]
    for path, image in zip(paths, images, strict=True):
        cv2.imwrite(path, image[..., ::-1])
    expected = [varied(0.0).predict(paths[0])[0], varied(LOOK).predict(paths[1])[0]]
    load = crops.CloseUps.load

    def one_disappears(self, indices, boxes):
        os.unlink(paths[0])
        return load(self, indices, boxes)

    monkeypatch.setattr(crops.CloseUps, "load", one_disappears)
    found = varied(LOOK).predict(paths)
    assert np.allclose(classes(found[0]), classes(expected[0]), atol=1e-6)
    assert np.allclose(classes(found[1]), classes(expected[1]), atol=1e-6)
    assert f"Skipped {paths[0]}" in caplog.text


def test_a_batch_that_is_gone_at_the_second_look_keeps_the_first(
    varied, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(crops, "KEPT_BYTES", 0)
    paths = [os.path.join(tmp_path, f"{number}.png") for number in range(2)]
    for number, path in enumerate(paths):
        cv2.imwrite(path, noise(60, 90, number))
    expected = varied(0.0).predict(paths)
    localizer = varied(LOOK)
    load, classify = crops.CloseUps.load, second_look.classify

    def all_disappear(self, indices, boxes):
        for path in paths:
            os.unlink(path)
        return load(self, indices, boxes)

    def of_some(classifier, close_ups):
        assert close_ups.shape[0] != 0  # none would do on this CPU, and fail on others
        return classify(classifier, close_ups)

    monkeypatch.setattr(crops.CloseUps, "load", all_disappear)
    monkeypatch.setattr(second_look, "classify", of_some)
    found = localizer.predict(paths)
    for first, both in zip(expected, found, strict=True):
        assert np.allclose(classes(both), classes(first), atol=1e-6)
        assert both.box_xyxy == first.box_xyxy
    assert all(f"Skipped {path}" in caplog.text for path in paths)


def test_another_look_can_be_given_to_a_saved_model(varied, tmp_path):
    varied(LOOK).save(tmp_path)
    assert gc_net.load(tmp_path).second_look == LOOK
    assert gc_net.load(tmp_path, second_look=0).second_look == 0.0
    with pytest.raises(ValueError, match="`second_look` must be 0, for no second look"):
        gc_net.load(tmp_path, second_look=-1.0)


def test_predictions_of_different_looks_are_not_mixed(varied, tmp_path):
    varied(0.0).save(tmp_path / "model")
    os.mkdir(tmp_path / "photos")
    cv2.imwrite(str(tmp_path / "photos" / "a.png"), noise(60, 90))
    given = tmp_path / "model", tmp_path / "photos"
    predict_files(*given, tmp_path / "plain")
    predict_files(*given, tmp_path / "closer", second_look=LOOK)
    plain, closer = (
        (tmp_path / name / "predictions.jsonl").read_text().splitlines()[1]
        for name in ("plain", "closer")
    )
    assert plain != closer
    for folder, look in (("plain", LOOK), ("closer", None), ("closer", 1.0)):
        with pytest.raises(ValueError, match="look was"):
            predict_files(*given, tmp_path / folder, second_look=look)
    with pytest.raises(ValueError, match="`second_look` must be"):
        predict_files(*given, tmp_path / "refused", second_look=-1.0)
    assert not os.path.exists(tmp_path / "refused")
