"""Engines give the same answers, and the fastest is chosen by itself."""

import concurrent.futures
import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

import gc_net
from gc_net import engines
from gc_net.detector import Detector
from gc_net.engines.base import Engine, EngineError
from gc_net.engines.xnnpack import XNNPack
from gc_net.evaluation.evaluate import evaluate
from gc_net.generators.model import ModelGenerator
from gc_net.heads import HEADS
from gc_net.localizer import Localizer
from gc_net.shapes import SHAPES
from tests.evaluation.models import Blocks
from tests.prediction.models import CLASS_NAMES, IMAGE_SIZE, noise, varied_model

CLOSE = 1e-4


def spread_weights(network, seed=0):
    """Give a network outputs that differ from image to image, and normalizations of any kind."""
    random = np.random.default_rng(seed)
    for layer in (*network.trunk.layers, *network.head.layers):
        if isinstance(layer, keras.layers.BatchNormalization):
            for weight in layer.weights:
                weight.assign(random.uniform(0.5, 1.5, weight.shape))
        elif isinstance(layer, keras.layers.Dense | keras.layers.Conv1D | keras.layers.Conv2D):
            scale = 2 / np.sqrt(np.prod(layer.kernel.shape[:-1]))
            layer.kernel.assign(random.normal(0, scale, layer.kernel.shape))


def localizer_of(shape="rotated_ellipse", head="native", **options):
    keras.utils.set_random_seed(0)
    parts = {"backbone": "tiny", "image_size": IMAGE_SIZE, "weights": None}
    detector = gc_net.Detector(shape=shape, head=head, **parts)
    classifier = gc_net.Classifier(num_classes=3, **parts)
    for network in (detector, classifier):
        spread_weights(network)
    generator = ModelGenerator(shape, IMAGE_SIZE)
    return Localizer(detector, generator, classifier, CLASS_NAMES, resize_size=37, **options)


@pytest.fixture(scope="module")
def twice_looking():
    """All that a localizer can have: a mean of mirror images, and a second look of its own."""
    second = gc_net.Classifier("tiny", 3, 40, weights=None, name="second_classifier")
    spread_weights(second, seed=1)
    return localizer_of(mirror=True, second_look=1.3, second_classifier=second)


def squashed(localizer, count=5, seed=0):
    size = localizer.resize_size
    return np.stack([noise(size, size, seed + number) for number in range(count)])


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], atol=CLOSE, err_msg=name)


@pytest.mark.parametrize("shape", SHAPES.names)
@pytest.mark.parametrize("head", ["native", "position", "edges", "rated_edges"])
def test_engines_give_the_same_for_every_shape_and_head(shape, head):
    localizer = localizer_of(shape, head)
    images = squashed(localizer)
    expected = localizer.first_look(images, engine="tensorflow")
    assert np.ptp(expected["coefficients"], axis=0).max() > 10 * CLOSE
    assert_close(localizer.first_look(images, engine="xnnpack"), expected)


def test_every_head_of_a_classifier_is_the_same_too():
    for head in HEADS:
        if head not in ("edges", "rated_edges"):  # of detectors alone
            classifier = gc_net.Classifier("tiny", 3, IMAGE_SIZE, head=head, weights=None)
            spread_weights(classifier)
            images = np.random.default_rng(0).normal(size=(3, IMAGE_SIZE, IMAGE_SIZE, 3))
            images = images.astype("float32")
            found = engines.get("xnnpack").forward(classifier)(images)
            np.testing.assert_allclose(found, classifier.from_normalized(images), atol=CLOSE)


@pytest.mark.parametrize(
    "asked",
    [{}, {"confidence": False}, {"evidence": True}, {"max_objects": 2}],
    ids=lambda asked: next(iter(asked), "confidence"),
)
def test_predictions_are_the_same_whatever_is_asked(twice_looking, asked):
    images = [noise(50, 70, seed) for seed in range(5)]
    expected = twice_looking.predict(images, 2, engine="tensorflow", **asked)
    found = twice_looking.predict(images, 2, engine="xnnpack", **asked)
    for one, other in zip(found, expected, strict=True):
        assert one.class_id == other.class_id and len(one.others) == len(other.others)
        np.testing.assert_allclose(one.coefficients, other.coefficients, atol=CLOSE)
        assert one.class_probability == pytest.approx(other.class_probability, abs=CLOSE)
        for name in ("confidence", "object_probability", "background_entropy"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=CLOSE)


@pytest.mark.parametrize("methods", [[], ["cam"]])
def test_evaluations_are_the_same(twice_looking, methods):
    asked = {"methods": methods, "batch_size": 4, "ten_crop": True}
    names = {"class_names": CLASS_NAMES}
    expected = evaluate(twice_looking, Blocks(**names), engine="tensorflow", **asked)
    found = evaluate(twice_looking, Blocks(**names), engine="xnnpack", **asked)
    assert found.metrics == expected.metrics
    np.testing.assert_allclose(found.coefficients, expected.coefficients, atol=CLOSE)
    np.testing.assert_allclose(found.top_probabilities, expected.top_probabilities, atol=CLOSE)


def test_a_network_is_converted_once_and_again_after_its_weights_have_changed():
    model = varied_model()
    first = XNNPack().forward(model.detector)
    assert XNNPack().forward(model.detector) is first
    localizer = Localizer(model.detector, model.generator, model.classifier, CLASS_NAMES)
    before = localizer.predict(noise(40, 40), engine="xnnpack")[0].coefficients
    outputs = model.detector.head.get_layer("outputs")
    outputs.bias.assign(outputs.bias + 1.0)
    after = localizer.predict(noise(40, 40), engine="xnnpack")[0].coefficients
    expected = localizer.predict(noise(40, 40), engine="tensorflow")[0].coefficients
    np.testing.assert_allclose(after, expected, atol=CLOSE)
    assert np.abs(np.subtract(after, before)).max() > 10 * CLOSE


def test_threads_may_share_a_network():
    forward = XNNPack().forward(varied_model().classifier)
    random = np.random.default_rng(0)
    batches = random.normal(size=(8, 6, IMAGE_SIZE, IMAGE_SIZE, 3)).astype("float32")
    expected = [forward.run(batch) for batch in batches]
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        found = list(threads.map(forward.run, batches))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("count", [1, 2, 15, 33])
def test_any_number_of_images_gives_what_each_gives_alone(count):
    network = varied_model().classifier
    forward = XNNPack().forward(network)
    size = [count, IMAGE_SIZE, IMAGE_SIZE, 3]
    images = np.random.default_rng(0).normal(size=size).astype("float32")
    (found,) = forward.run(images)
    alone = [forward.run(images[row : row + 1])[0][0] for row in range(count)]
    np.testing.assert_allclose(found, alone, atol=1e-6)
    np.testing.assert_allclose(found, network.from_normalized(images), atol=CLOSE)


def test_xnnpack_is_chosen_for_many_images_on_a_cpu(monkeypatch):
    model = varied_model()

    def networks(_):
        return [model.detector, model.classifier]

    assert engines.ready("auto", networks, engines.PAYS_FROM - 1).name == "tensorflow"
    assert engines.ready("auto", networks, engines.PAYS_FROM).name == "xnnpack"
    assert engines.ready("tensorflow", networks, engines.PAYS_FROM).name == "tensorflow"
    assert engines.ready("xnnpack", networks, 1).name == "xnnpack"
    devices = tf.config.list_physical_devices
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda kind: ["a GPU"] if kind == "GPU" else devices()
    )
    assert engines.ready("auto", networks, engines.PAYS_FROM).name == "tensorflow"


def test_half_precision_is_left_to_tensorflow():
    half = gc_net.Classifier("tiny", 3, 32, weights=None, precision="mixed_bfloat16")
    assert engines.ready("auto", lambda _: [half], engines.PAYS_FROM).name == "tensorflow"
    with pytest.raises(EngineError, match=r"float32 networks.*mixed_bfloat16.*tensorflow"):
        engines.ready("xnnpack", lambda _: [half], 1)


@pytest.fixture
def strange():
    """A classifier with a layer that TFLite does not know."""

    class Inverse(keras.layers.Layer):
        def call(self, inputs):
            square = tf.linalg.diag(tf.abs(inputs) + 1.0)
            return tf.linalg.diag_part(tf.linalg.inv(square))

    def inverse(backbone, num_outputs, feature_shape):
        inputs = keras.Input(feature_shape, name="features")
        pooled = keras.layers.GlobalAveragePooling2D()(inputs)
        outputs = keras.layers.Dense(num_outputs, name="outputs")(Inverse()(pooled))
        return keras.Model(inputs, outputs, name="head")

    with HEADS.register("inverse", inverse):
        yield gc_net.Classifier("tiny", 3, 32, head="inverse", weights=None)


def test_what_cannot_be_converted_runs_in_tensorflow_and_is_named(strange, caplog):
    with caplog.at_level(logging.WARNING, "gc_net"):
        assert engines.ready("auto", lambda _: [strange], engines.PAYS_FROM).name == "tensorflow"
    assert "cannot run the classifier" in caplog.text and "instead" in caplog.text
    with pytest.raises(EngineError, match="cannot run the classifier"):
        engines.ready("xnnpack", lambda _: [strange], 1)


def test_an_engine_of_ones_own_is_used_by_its_name():
    class Counting(Engine):
        name, passes = "counting", []

        def forward(self, network):
            self.passes.append(network.name)
            return network.from_normalized

    with engines.ENGINES.register("counting", Counting):
        assert engines.names() == ("auto", "tensorflow", "folded", "xnnpack", "int8", "counting")
        localizer = localizer_of()
        localizer.predict(noise(40, 40), engine="counting")
        assert localizer.pair(Counting()).name in Counting.passes  # which begin alike
        spread_weights(localizer.classifier, seed=1)
        localizer.predict(noise(40, 40), engine="counting")
    assert {"detector", "classifier"} <= set(Counting.passes)
    with pytest.raises(ValueError, match="Unknown engine 'counting'"):
        engines.get("counting")


@pytest.mark.slow
def test_the_shipped_birds_are_the_same():
    localizer = gc_net.load("saved_models/cub_lite")
    images = squashed(localizer, 3)
    expected = localizer.first_look(images, engine="tensorflow")
    assert_close(localizer.first_look(images, engine="xnnpack"), expected)
    second = localizer.close_up_classifier
    windows = second.normalize(np.float32(images[:, :224, :224]))
    found = XNNPack().forward(second)(windows)
    np.testing.assert_allclose(found, second.from_normalized(windows), atol=1e-3, rtol=CLOSE)


def test_xnnpack_greets_nobody_where_the_log_is_off(capfd, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    network = Detector("tiny", "rectangle", 32, weights=None)
    engines.get("xnnpack").copy(network)(np.zeros((1, 32, 32, 3), "float32"))
    assert capfd.readouterr().err == ""
