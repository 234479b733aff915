"""The second look in exported models: cut out in the graph, and left out where it cannot be had."""

import os
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from gc_net.classifier import Classifier
from gc_net.data import crops, transforms
from gc_net.export import preprocessing
from gc_net.export.folder import export_folder
from gc_net.export.parity import OF_PHOTOS
from gc_net.export.saved_model import export_saved_model
from gc_net.export.tflite import export_tflite, run
from gc_net.localizer import load
from tests.models import localizer_of
from tests.prediction.models import CLASS_NAMES, IMAGE_SIZE, encode, noise, varied_model

LOOK = 0.9


@pytest.fixture(scope="module", params=["classifier", "second_classifier"])
def model_dir(request, tmp_path_factory):
    """A model whose classifier looks twice, or one with a second, of larger close-ups."""
    keras.utils.set_random_seed(0)
    model, second = varied_model(), None
    if request.param == "second_classifier":
        second = Classifier("tiny", len(CLASS_NAMES), IMAGE_SIZE + 12, weights=None)
        kernel = second.head.get_layer("outputs").kernel
        kernel.assign(np.random.default_rng(7).normal(0, 3, kernel.shape))
    # Smaller shapes than an untrained detector places, so that there is a reason to look closer.
    outputs = model.detector.head.get_layer("outputs")
    outputs.kernel.assign(outputs.kernel * 0.3)
    outputs.bias.assign([0.0, 0.0, -1.0, -1.5, 0.0])
    folder = tmp_path_factory.mktemp("model")
    options = {"second_look": LOOK, "second_classifier": second}
    localizer_of(model, CLASS_NAMES, **options).save(folder)
    return folder


@pytest.fixture(scope="module")
def served(model_dir, tmp_path_factory):
    folder, differences = export_saved_model(model_dir, tmp_path_factory.mktemp("m"), top_k=None)
    return folder, differences, tf.saved_model.load(folder).signatures


def card_row(folder, name):
    """Return what the table of an exported model's card says."""
    with open(os.path.join(folder, "model_card.md"), encoding="utf-8") as file:
        (value,) = re.findall(rf"^\| {name} \| (.*) \|$", file.read(), re.MULTILINE)
    return value


def num_parameters(model):
    parts = (model.detector, model.generator, model.classifier)
    return f"{sum(int(np.prod(weight.shape)) for part in parts for weight in part.weights):,}"


def by_class(ids, probabilities):
    return np.asarray(probabilities)[np.argsort(np.asarray(ids))]


def of_prediction(prediction):
    scores = prediction.classes
    return by_class([score.id for score in scores], [score.probability for score in scores])


IMAGES = [noise(60, 90, 1), noise(140, 45, 2), noise(200, 300, 3), noise(32, 32, 4)]


def test_close_ups_in_the_graph_are_within_two_grey_levels_of_those_outside():
    boxes = np.float32([[0.2, 0.3, 0.7, 0.6], [0.0, 0.1, 0.3, 0.2], [0.8, 0.9, 1.0, 1.0]])
    image = IMAGES[2]
    batch, sizes = np.stack([image] * 3), np.tile(image.shape[:2], (3, 1)).astype(np.int32)
    ragged = tf.RaggedTensor.from_tensor(batch.reshape(3, -1, 3))
    function = tf.function(lambda *args: preprocessing.close_ups(*args, LOOK, 24))
    for images in (tf.constant(batch), ragged, tf.cast(batch, tf.float32)):
        found = function(images, sizes, boxes).numpy()
        for row, region in enumerate(crops.regions(boxes, LOOK)):
            part = np.ascontiguousarray(crops.crop(image, region))
            expected = transforms.squash(part, 24).astype("float32")
            assert np.abs(found[row] - expected).mean() < 1
            assert np.abs(found[row] - expected)[2:-2, 2:-2].max() <= 2


def test_every_signature_agrees_with_keras_on_images_that_are_not_square(model_dir, served):
    _, differences, signatures = served
    assert max(value for name, value in differences.items() if name not in OF_PHOTOS) < 1e-4
    looking, plain = load(model_dir), load(model_dir, second_look=0)
    changed = []
    for image in IMAGES:
        (expected,), (first,) = looking.predict(image), plain.predict(image)
        changed.append(np.abs(of_prediction(expected) - of_prediction(first)).max())
        for name, value in {
            "serving_default": tf.cast(image[None], tf.float32),
            "serve_uint8": tf.constant(image[None]),
            "serve_bytes": tf.constant([encode(image)]),
        }.items():
            found = signatures[name](value)
            probabilities = by_class(found["class_ids"][0], found["class_probabilities"][0])
            # Resizing differs by a grey level or two from that outside the graph.
            np.testing.assert_allclose(probabilities, of_prediction(expected), atol=0.03)
            assert float(found["confidence"][0]) == pytest.approx(expected.confidence, abs=0.03)
    assert max(changed) > 0.1  # more than the tolerance: the second look was there


def test_files_of_different_sizes_go_through_one_request(served):
    signatures = served[2]
    together = signatures["serve_bytes"](tf.constant([encode(image) for image in IMAGES]))
    for row, image in enumerate(IMAGES):
        alone = signatures["serve_bytes"](tf.constant([encode(image)]))
        for name in ("class_probabilities", "boxes", "confidence"):
            np.testing.assert_allclose(together[name][row], alone[name][0], atol=1e-5)


@pytest.mark.parametrize("batch", [0, 2])
def test_the_batch_size_is_free(served, batch):
    signatures = served[2]
    found = signatures["serving_default"](tf.zeros([batch, 10, 20, 3]))
    assert found["class_probabilities"].shape == (batch, 3)
    found = signatures["serve_bytes"](tf.constant([encode(noise(8, 8))] * batch, tf.string))
    assert found["class_probabilities"].shape == (batch, 3)


def test_the_look_can_be_given_to_an_export(model_dir, tmp_path):
    folder, _ = export_folder(model_dir, tmp_path / "folder", second_look=1.5)
    assert load(folder).second_look == 1.5
    with open(os.path.join(folder, "model_card.md"), encoding="utf-8") as file:
        assert "| second look | a region of 1.5 ×" in file.read()


def test_without_a_second_look_there_is_no_second_classifier_in_an_export(model_dir, tmp_path):
    whole = load(model_dir)
    folder, _ = export_folder(model_dir, tmp_path / "folder", second_look=0.0)
    assert load(folder).second_classifier is None
    served, _ = export_saved_model(model_dir, tmp_path / "plain", second_look=0.0)
    loaded = tf.saved_model.load(served)
    found = loaded.signatures["serve_uint8"](tf.constant(IMAGES[0][None]))
    (expected,) = load(model_dir, second_look=0).predict(IMAGES[0])
    probabilities = by_class(found["class_ids"][0], found["class_probabilities"][0])
    np.testing.assert_allclose(probabilities, of_prediction(expected), atol=0.03)
    closer, _ = export_saved_model(model_dir, tmp_path / "closer", second_look=1.0)
    numbers = [len(tf.saved_model.load(each).model_variables) for each in (served, closer)]
    # Batch normalization is folded into convolutions, so that there are fewer than the model has.
    assert 0 < numbers[0] <= len(whole.variables)
    assert (numbers[0] < numbers[1]) == (whole.second_classifier is not None)
    for exported in (folder, served):
        assert card_row(exported, "second classifier") == "none"
        assert card_row(exported, "parameters") == num_parameters(whole)


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
def test_a_tflite_file_has_the_first_look_and_says_so(model_dir, tmp_path, caplog):
    with pytest.raises(ValueError, match="leave out --second_look"):
        export_tflite(model_dir, tmp_path / "refused", second_look=1.0)
    assert not os.path.exists(tmp_path / "refused")
    folder, _ = export_tflite(model_dir, tmp_path / "birds")
    assert "its classes are those of the first look" in caplog.text
    with open(os.path.join(folder, "model_card.md"), encoding="utf-8") as file:
        card = file.read()
    assert "needs the original images and is left out" in card
    assert card_row(folder, "second look") == card_row(folder, "second classifier") == "none"
    assert card_row(folder, "parameters") == num_parameters(load(model_dir))
    with open(os.path.join(folder, "model_float32.tflite"), "rb") as file:
        squashed = transforms.squash(IMAGES[0], IMAGE_SIZE)
        found = run(file.read(), squashed[None])["class_probabilities"][0]
    (expected,) = load(model_dir, second_look=0).predict(IMAGES[0])
    np.testing.assert_allclose(found, of_prediction(expected), atol=1e-4)
