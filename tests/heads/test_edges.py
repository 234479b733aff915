"""The head that finds edges: on every backbone, exported, and trained by every loss."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import gc_net
from gc_net import backbones, heads
from gc_net.backbones import BACKBONES
from gc_net.export.saved_model import export_saved_model
from gc_net.export.tflite import export_tflite
from gc_net.heads.base import feature_shapes
from gc_net.heads.edges import CHANNELS, Correlation, SoftArgmax, mask_size, with_mask
from gc_net.shapes.base import pixel_grid
from tests.backbones.test_contract import SMALL, unfilled
from tests.models import localizer_of
from tests.prediction.models import CLASS_NAMES

# Sides of the maps at the backbones' own sizes: strides of 8, 16 and 32 where there are such.
SIDES = {
    "vgg16": (224, [28, 14, 7]),
    "googlenet": (224, [28, 14, 7]),
    "inception_v3": (299, [35, 17, 8]),
    "efficientnet_lite0": (224, [28, 14, 7]),
    "efficientnet_lite1": (240, [30, 15, 8]),
    "efficientnet_lite2": (260, [33, 17, 9]),
    "tiny": (32, [16, 8, 4]),
    "small": (64, [32, 16, 8]),
}


def pictures(count=4, size=32):
    return np.random.default_rng(0).integers(0, 256, (count, size, size, 3)).astype(np.uint8)


def detector(shape="rotated_ellipse", backbone="tiny", size=32, **options):
    return gc_net.Detector(backbone, shape, size, head="edges", weights=None, **options)


@pytest.fixture(scope="class", params=BACKBONES.names)
def name(request):
    return request.param


@pytest.fixture(scope="class")
def upright(name):
    """A fresh detector of upright boxes, which no test changes."""
    return detector("rectangle", name, SMALL[name])


class TestBackbones:
    def test_each_has_maps_of_several_sizes(self, name):
        backbone = backbones.get(name)
        size, sides = SIDES[name]
        trunk = unfilled(lambda: heads.get("edges").on(backbone, backbone.trunk(size)))
        assert [shape[0] for shape in feature_shapes(trunk)] == sides

    @pytest.mark.parametrize("shape", ["rectangle", "rotated_ellipse"])
    def test_a_fresh_detector_starts_in_the_middle(self, name, upright, shape):
        size = SMALL[name]
        model = upright if shape == "rectangle" else detector(shape, name, size)
        coefficients = np.asarray(model(pictures(2, size)))
        np.testing.assert_allclose(coefficients[:, :4], 0.5, atol=0.06)

    def test_no_layer_is_kept_that_the_head_does_not_look_at(self, name, upright):
        model = upright
        images = tf.constant(pictures(2, SMALL[name]), tf.float32)
        with tf.GradientTape() as tape:
            raw, mask = with_mask(model.head)(model.features(images))
            loss = tf.reduce_sum(raw) + tf.reduce_sum(mask)
        gradients = tape.gradient(loss, model.trainable_variables)
        assert all(gradient is not None for gradient in gradients)


def test_one_map_will_do():
    class Plain(backbones.get("tiny").__class__):
        feature_layers = ("relu3",)

    model = detector("rectangle", Plain())
    assert model.trunk.output_shape[1:] == (4, 4, 32)
    assert np.isfinite(np.asarray(model(pictures()))).all()


def test_an_edge_is_found_between_positions():
    logits = np.full((1, 57, 2), -50.0, np.float32)
    logits[0, [14, 15], 0] = 50.0
    logits[0, 56, 1] = 50.0
    positions, deviations = (np.asarray(each)[0] for each in SoftArgmax()(logits))
    # The tilt of a fresh head moves it by a fraction of a cell, which training makes up for.
    np.testing.assert_allclose(positions, [14.5 / 56, 1.0], atol=0.02 / 56 * 57)
    # Half a cell to either side of the first; the second has a single peak.
    np.testing.assert_allclose(deviations, [0.5 / 56, 0.0], atol=1e-4)


@pytest.mark.parametrize("correlation", [-0.8, 0.0, 0.5])
def test_the_correlation_is_that_of_the_mask(correlation):
    x, y = (np.asarray(each) - 0.5 for each in pixel_grid(56, 56))
    w, h = 0.4, 0.2
    level = (x / w) ** 2 - 2 * correlation * x * y / (w * h) + (y / h) ** 2
    logits = np.where(level < 1 - correlation**2, 20.0, -20.0)[..., None]
    found = np.asarray(Correlation()(logits.astype(np.float32)))
    np.testing.assert_allclose(found, [[correlation]], atol=0.02)
    mirrored = np.asarray(Correlation()(logits[:, :, ::-1].astype(np.float32)))
    np.testing.assert_allclose(mirrored, -found, atol=1e-5)


def test_the_mask_is_a_second_output_of_the_same_layers():
    model = detector()
    features = model.features(tf.constant(pictures(), tf.float32))
    both = with_mask(model.head)
    raw, mask = both(features)
    np.testing.assert_array_equal(raw, model.head(features))
    assert mask.shape == (4, mask_size(model.head), mask_size(model.head)) == (4, 16, 16)
    owned = {id(variable) for variable in model.head.variables}
    assert {id(variable) for variable in both.variables} == owned
    np.testing.assert_allclose(model.from_features(features), model(pictures()), atol=1e-6)


def test_it_is_small():
    model = detector("rotated_ellipse", "efficientnet_lite0", 64)
    assert model.head.count_params() < 250_000
    assert model.head.get_layer("edges_finest_conv").filters == CHANNELS


def test_a_classifier_has_no_edges():
    with pytest.raises(ValueError, match=r"fits detectors alone.*num_outputs=200"):
        gc_net.Classifier("tiny", 200, 32, head="edges", weights=None)


def test_half_precision_ends_in_float32():
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        assert detector().raw(pictures()).dtype == "float32"
    finally:
        keras.config.set_dtype_policy(policy)


def test_the_three_losses_move_all_of_its_outputs():
    keras.utils.set_random_seed(0)
    model = gc_net.GCNet(
        detector("rotated_ellipse"),
        gc_net.ModelGenerator("rotated_ellipse", 32),
        gc_net.Classifier("tiny", 3, 32, weights=None),
    )
    model.compile(keras.optimizers.SGD(1.0))
    variables = model.detector.trainable_variables
    before = [np.array(variable) for variable in variables]
    model.fit(pictures(), np.array([0, 1, 2, 0]), batch_size=4, verbose=0)
    for variable, value in zip(variables, before, strict=True):
        assert np.isfinite(variable).all()
        assert np.any(variable != value), variable.path


def test_a_saved_detector_places_the_same_shapes(tmp_path):
    model = detector()
    model.save(tmp_path / "detector.keras")
    loaded = keras.saving.load_model(tmp_path / "detector.keras")
    np.testing.assert_array_equal(loaded(pictures()), model(pictures()))


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
@pytest.mark.parametrize(
    ("export", "shape", "mirror"),
    [
        (export_saved_model, "rotated_ellipse", False),
        (export_tflite, "rotated_ellipse", False),
        (export_tflite, "rectangle", True),
    ],
)
def test_what_is_exported_places_the_same_shapes_and_is_as_sure(export, shape, mirror, tmp_path):
    keras.utils.set_random_seed(0)
    model = gc_net.GCNet(
        detector(shape),
        gc_net.ModelGenerator(shape, 32),
        gc_net.Classifier("tiny", 3, 32, weights=None),
    )
    for layer in model.detector.head.layers:
        if layer.name.endswith(("logits", "mask")):  # so that answers differ from image to image
            layer.kernel.assign(20 * layer.kernel)
    localizer_of(model, CLASS_NAMES, mirror=mirror).save(tmp_path / "model")
    _, differences = export(tmp_path / "model", tmp_path / "exported")
    for output in ("coefficients", "confidence"):
        (difference,) = (value for name, value in differences.items() if name.endswith(output))
        assert difference < 1e-3
