"""Layers that two networks have in common run once, and nothing else about them changes."""

import functools
import gc

import keras
import numpy as np
import pytest
import tensorflow as tf

import gc_net
from gc_net import engines
from gc_net.backbones import BACKBONES
from gc_net.engines.sharing import pair_of, same_layers
from gc_net.evaluation.evaluate import evaluate
from gc_net.export.signatures import ServingModule
from gc_net.generators.model import ModelGenerator
from gc_net.localizer import Localizer
from gc_net.prediction.graph import first_look
from tests.engines.test_engines import CLOSE, assert_close, spread_weights, squashed
from tests.engines.test_folded import SIZES
from tests.evaluation.models import Blocks
from tests.prediction.models import CLASS_NAMES, IMAGE_SIZE, noise

ENGINES = ["tensorflow", "folded", "xnnpack"]
CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")


def networks(head="edges", shape="rectangle", image_size=IMAGE_SIZE, classifier_head="native"):
    """Return a detector and a classifier of other weights."""
    keras.utils.set_random_seed(0)
    parts = {"backbone": "tiny", "image_size": image_size, "weights": None}
    detector = gc_net.Detector(shape=shape, head=head, **parts)
    classifier = gc_net.Classifier(num_classes=3, head=classifier_head, **parts)
    for seed, network in enumerate((detector, classifier)):
        spread_weights(network, seed)
    return detector, classifier


def share(detector, classifier, before):
    """Give the classifier the detector's weights in the layers before one."""
    for layer in classifier.trunk.layers:
        if layer.name.startswith(before):
            return
        layer.set_weights(detector.trunk.get_layer(layer.name).get_weights())


def localizer_of(before="conv2", head="edges", shape="rectangle", **options):
    detector, classifier = networks(head, shape)
    share(detector, classifier, before)
    generator = ModelGenerator(shape, IMAGE_SIZE)
    return Localizer(detector, generator, classifier, CLASS_NAMES, resize_size=37, **options)


def apart(engine):
    """Return an engine of the same kind that runs every network for itself."""

    class Apart(type(engines.get(engine))):
        name = f"{engine} apart"

        def pair(self, first, second):
            return None

    return Apart()


def num_operations(function, *arguments, kinds=CONVOLUTIONS):
    graph = tf.function(function).get_concrete_function(*arguments).graph
    return sum(operation.type in kinds for operation in graph.get_operations())


@functools.cache
def looked_apart(head, shape, mirror):
    """Return a localizer, images, and what it sees in them with its networks run apart."""
    localizer = localizer_of(head=head, shape=shape, mirror=mirror)
    images = squashed(localizer)
    return localizer, images, localizer.first_look(images, engine=apart("tensorflow"))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("head", "shape"),
    [("edges", "rectangle"), ("edges", "rotated_ellipse"), ("native", "rotated_rectangle")],
)
@pytest.mark.parametrize("mirror", [False, True])
def test_shapes_and_classes_are_those_of_networks_run_apart(engine, head, shape, mirror):
    localizer, images, expected = looked_apart(head, shape, mirror)
    assert np.ptp(expected["coefficients"], axis=0).max() > 10 * CLOSE
    assert localizer.pair(engines.get(engine)) is not None
    assert_close(localizer.first_look(images, engine=engine), expected)


@pytest.mark.parametrize("before", ["conv2", "conv3", "nothing: the whole trunk"])
@pytest.mark.parametrize("classifier_head", ["native", "max"])
def test_outputs_are_those_of_both_networks(before, classifier_head):
    detector, classifier = networks("position", classifier_head=classifier_head)
    share(detector, classifier, before)
    images = np.random.default_rng(0).normal(size=(3, IMAGE_SIZE, IMAGE_SIZE, 3))
    images = images.astype("float32")
    expected = detector.from_normalized(images), classifier.from_normalized(images)
    for name in ENGINES:
        engine = engines.get(name)
        pair = engine.pair(detector, classifier)
        for found, other in zip(pair.split(engine.forward(pair)(images)), expected, strict=True):
            np.testing.assert_allclose(found, other, atol=CLOSE)


def test_what_is_the_same_runs_once():
    localizer = localizer_of(before="conv3")
    images = tf.constant(squashed(localizer))

    def count(engine):
        return num_operations(lambda images: first_look(localizer, images, engine=engine), images)

    # The first two of the trunk's three convolutions.
    assert count(engines.get("tensorflow")) == count(apart("tensorflow")) - 2
    assert count(engines.get("folded")) == count(apart("folded")) - 2


@pytest.mark.parametrize("backbone", BACKBONES.names)
def test_two_trunks_of_the_same_weights_are_the_same(backbone):
    size = SIZES.get(backbone, 32)
    trunks = []
    for _ in range(2):
        keras.utils.set_random_seed(0)
        trunks.append(gc_net.backbones.get(backbone).trunk(size))
    first, second = trunks
    assert list(same_layers(first, second)) == first.operations
    # One value is enough for a layer and all behind it to be others.
    weighted = [layer for layer in second.layers if layer.weights]
    changed = weighted[len(weighted) // 2]
    value = changed.weights[-1].numpy()
    value.flat[-1] += 1e-6 + 1e-6 * abs(value.flat[-1])
    changed.weights[-1].assign(value)
    same = set(same_layers(first, second).values())
    behind, pending = set(), [changed]
    while pending:
        layer = pending.pop()
        if layer not in behind:
            behind.add(layer)
            pending += [node.operation for node in layer._outbound_nodes]
    assert 0 < len(same) < len(second.operations)
    assert same == set(second.operations) - behind


def test_networks_are_a_pair_if_their_first_layers_are_the_same():
    detector, classifier = networks()
    assert pair_of(detector, classifier) is None
    share(detector, classifier, "conv2")
    pair = pair_of(detector, classifier)
    assert pair is not None and pair_of(detector, classifier) is pair
    share(detector, classifier, "conv3")
    assert pair_of(detector, classifier) is not pair
    first = classifier.trunk.get_layer("conv1")
    kernel = first.kernel.numpy()
    kernel[0, 0, 0, 0] += 1e-6
    first.kernel.assign(kernel)
    assert pair_of(detector, classifier) is None


def test_networks_that_see_images_otherwise_are_no_pair():
    detector, _ = networks()
    _, larger = networks(image_size=48)
    share(detector, larger, "conv3")
    assert pair_of(detector, larger) is None
    _, other = networks()
    share(detector, other, "conv3")
    assert pair_of(detector, other) is not None
    other.normalizer = keras.layers.Rescaling(1 / 255)
    assert pair_of(detector, other) is None


@functools.cache
def predicted_apart(**asked):
    """Return a localizer, images, and its predictions with its networks run apart."""
    localizer = localizer_of(mirror=True, second_look=1.3)
    images = [noise(50, 70, seed) for seed in range(5)]
    return localizer, images, localizer.predict(images, 2, engine=apart("tensorflow"), **asked)


@pytest.mark.parametrize("asked", [{}, {"confidence": False}, {"evidence": True}])
@pytest.mark.parametrize("engine", ENGINES)
def test_predictions_are_the_same_with_all_that_a_localizer_can_do(engine, asked):
    localizer, images, expected = predicted_apart(**asked)
    found = localizer.predict(images, 2, engine=engine, **asked)
    for one, other in zip(found, expected, strict=True):
        assert one.class_id == other.class_id
        np.testing.assert_allclose(one.coefficients, other.coefficients, atol=CLOSE)
        assert one.class_probability == pytest.approx(other.class_probability, abs=CLOSE)
        for name in ("confidence", "object_probability"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=CLOSE)


def test_an_evaluation_is_the_same():
    localizer = localizer_of(mirror=True)
    blocks = Blocks(class_names=CLASS_NAMES)
    asked = {"methods": ["cam"], "batch_size": 4, "ten_crop": True}
    for methods in ([], ["cam"]):
        asked["methods"] = methods
        expected = evaluate(localizer, blocks, engine=apart("tensorflow"), **asked)
        found = evaluate(localizer, blocks, engine="tensorflow", **asked)
        assert found.metrics == expected.metrics
        np.testing.assert_allclose(found.coefficients, expected.coefficients, atol=CLOSE)


@pytest.mark.parametrize("engine", ENGINES)
def test_changed_weights_count_in_the_next_prediction(engine):
    localizer = localizer_of()
    image = noise(40, 40)
    localizer.predict(image, engine=engine)
    for layer in ("conv1", "conv3"):  # first the shared ones of one network, then others
        kernel = localizer.classifier.trunk.get_layer(layer).kernel
        kernel.assign(-kernel)
        found = localizer.predict(image, engine=engine)[0]
        expected = localizer.replace().predict(image, engine=apart("tensorflow"))[0]
        assert found.class_probability == pytest.approx(expected.class_probability, abs=CLOSE)
        np.testing.assert_allclose(found.coefficients, expected.coefficients, atol=CLOSE)


def test_an_export_holds_the_weights_of_each_network_once():
    for mirror in (False, True):
        localizer = localizer_of(mirror=mirror)
        module = ServingModule(localizer)
        identities = [id(variable) for variable in module.model_variables]
        assert len(set(identities)) == len(identities)
        sizes = sum(int(tf.size(variable)) for variable in module.model_variables)
        assert sizes < sum(network.count_params() for network in localizer.parts.values())
        used = module.serve.get_concrete_function(
            tf.TensorSpec([2, 40, 40, 3], tf.float32)
        ).captured_inputs
        known = {id(variable.handle) for variable in module.model_variables}
        resources = [tensor for tensor in used if tensor.dtype == tf.resource]
        assert resources and all(id(tensor) in known for tensor in resources)


def test_a_pair_does_not_keep_its_networks():
    detector, classifier = networks()
    share(detector, classifier, "conv3")
    pair = pair_of(detector, classifier)
    assert pair.networks == (detector, classifier)
    del detector, classifier
    gc.collect()
    assert pair.networks == (None, None)


@pytest.mark.slow
def test_the_shipped_birds_share_their_first_blocks():
    localizer = gc_net.load("saved_models/cub_lite")
    same = same_layers(localizer.detector.trunk, localizer.classifier.trunk)
    assert [layer.name for layer in same][-1] == "block3b_add"
    images = squashed(localizer, 3)
    expected = localizer.first_look(images, engine=apart("tensorflow"))
    for engine in ENGINES:
        assert_close(localizer.first_look(images, engine=engine), expected)
