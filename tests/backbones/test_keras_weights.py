"""Files of keras.applications, against keras.applications itself."""

import keras
import numpy as np
import pytest

from gc_net import backbones
from tests.backbones import formula


def fill(model):
    """Give every weight a value of its own, statistics of BatchNorm included."""
    for number, variable in enumerate(model.weights):
        name = f"{number}.running_var" if "variance" in variable.name else f"{number}.bias"
        shape = tuple(variable.shape)
        if len(shape) > 1:
            value = formula.noise(name, shape) * np.sqrt(6 / np.prod(shape[:-1]))
        else:
            value = formula.state_array(name, shape)
        variable.assign(value.astype("float32"))


@pytest.fixture(scope="module")
def vgg16():
    model = keras.applications.VGG16(weights=None, include_top=False, input_shape=(64, 64, 3))
    fill(model)
    return model


@pytest.mark.parametrize("file", ["vgg16.weights.h5", "vgg16.h5"])
def test_vgg16_is_rewritten_for_its_own_normalisation(vgg16, file, tmp_path):
    save = vgg16.save_weights if file.endswith(".weights.h5") else vgg16.save
    save(tmp_path / file)
    backbone = backbones.get("vgg16")
    trunk = backbone.trunk(64)
    backbone.load_weights(trunk, weights=tmp_path / file)
    image = formula.image(64)
    theirs = keras.applications.vgg16.preprocess_input(image.copy())
    ours = backbone.normalizer()(image)

    def first(model, x):
        layer = keras.Model(model.input, model.get_layer("block1_conv1").output)
        return np.array(layer(x))

    expected, found = first(vgg16, theirs), first(trunk, ours)
    inside = np.s_[:, 1:-1, 1:-1]
    np.testing.assert_allclose(found[inside], expected[inside], rtol=1e-4, atol=1e-3)
    # Padding stands for the mean colour, and the means are half a grey level apart.
    kernel = vgg16.get_layer("block1_conv1").get_weights()[0]
    assert 0 < np.abs(found - expected).max() < 0.5 * np.abs(kernel).sum((0, 1, 2)).max()
    expected = np.array(vgg16(theirs))
    np.testing.assert_allclose(np.array(trunk(ours)), expected, atol=0.02 * expected.mean())


@pytest.mark.slow
def test_vgg16_takes_its_fully_connected_layers_from_keras(tmp_path):
    reference = keras.applications.VGG16(weights=None, classifier_activation=None)
    fill(reference)
    reference.save_weights(tmp_path / "vgg16.weights.h5")
    backbone = backbones.get("vgg16")
    trunk = backbone.trunk(224)
    head = backbone.head(1000, trunk.output_shape[1:])
    assert backbone.load_weights(trunk, head, tmp_path / "vgg16.weights.h5") == []
    image = formula.image(224)
    expected = np.array(reference(keras.applications.vgg16.preprocess_input(image.copy())))
    found = np.array(head(trunk(backbone.normalizer()(image))))
    np.testing.assert_allclose(found, expected, atol=0.01 * expected.std())


def test_inception_v3_computes_what_keras_does_with_its_file(tmp_path):
    reference = keras.applications.InceptionV3(
        weights=None, input_shape=(75, 75, 3), classifier_activation=None
    )
    fill(reference)
    reference.save_weights(tmp_path / "inception.weights.h5")
    backbone = backbones.get("inception_v3")
    trunk = backbone.trunk(75)
    head = backbone.head(1000, trunk.output_shape[1:])
    assert backbone.load_weights(trunk, head, tmp_path / "inception.weights.h5") == []
    image = formula.image(75)
    expected = reference(keras.applications.inception_v3.preprocess_input(image.copy()))
    found = np.array(head(trunk(backbone.normalizer()(image))))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * np.std(expected))


def test_files_of_keras_are_read_under_mixed_precision(vgg16, tmp_path):
    vgg16.save_weights(tmp_path / "vgg16.weights.h5")
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        backbone = backbones.get("vgg16")
        trunk = backbone.trunk(64)
        backbone.load_weights(trunk, weights=tmp_path / "vgg16.weights.h5")
        assert keras.config.dtype_policy().name == "mixed_bfloat16"
    finally:
        keras.config.set_dtype_policy("float32")
    expected = vgg16.get_layer("block3_conv2").get_weights()[0]
    np.testing.assert_array_equal(trunk.get_layer("block3_conv2").get_weights()[0], expected)


def test_files_of_other_networks_are_refused(tmp_path):
    other = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Conv2D(4, 3)])
    other.save_weights(tmp_path / "other.weights.h5")
    backbone = backbones.get("vgg16")
    with pytest.raises(ValueError, match=r"other\.weights\.h5.*keras\.applications' VGG16"):
        backbone.load_weights(backbone.trunk(32), weights=tmp_path / "other.weights.h5")


@pytest.mark.parametrize("side", [2, 4, 9])
def test_vgg16_pools_other_maps_to_seven_by_seven(side):
    head = backbones.get("vgg16").head(3, (side, side, 2))
    features = formula.noise("features", (1, side, side, 2))
    pooled = np.array(keras.Model(head.input, head.get_layer("pool").output)(features))
    for row in range(7):
        for column in range(7):
            # Cells may share pixels: each begins at ⌊i·n/7⌋ and ends before ⌈(i + 1)·n/7⌉.
            rows = slice(row * side // 7, -(-(row + 1) * side // 7))
            columns = slice(column * side // 7, -(-(column + 1) * side // 7))
            expected = features[0, rows, columns].mean((0, 1))
            np.testing.assert_allclose(pooled[0, row, column], expected, atol=1e-6)


def test_vgg16_takes_a_map_of_seven_by_seven_as_it_is():
    head = backbones.get("vgg16").head(3, (7, 7, 1))
    assert "pool" not in {layer.name for layer in head.layers}
