"""A trunk without its last step down in resolution."""

import keras
import numpy as np
import pytest

import gc_net
from gc_net import backbones
from gc_net.backbones.finer import finer
from gc_net.backbones.folding import call_folded

# Sides at which every map has an even or an odd side as in the networks' own size.
SIZES = {"vgg16": 64, "googlenet": 96, "inception_v3": 139, "small": 64, "tiny": 32}
# The layers that make the coarsest map.
LAST_STEP = {
    "vgg16": ["block5_pool"],
    "googlenet": ["maxpool4"],
    "inception_v3": ["conv72", "conv76", "maxpool4"],
    "efficientnet_lite0": ["block6a_depthwise_conv"],
    "small": ["conv3"],
    "tiny": ["conv3"],
}


@pytest.fixture(scope="module", params=LAST_STEP)
def trunks(request):
    """Return the name, a trunk, and its finer one with the same weights."""
    keras.utils.set_random_seed(0)
    trunk = backbones.get(request.param).trunk(SIZES.get(request.param, 96))
    fine = finer(trunk)
    fine.set_weights(trunk.get_weights())
    return request.param, trunk, fine


def test_the_map_has_twice_the_side_and_the_same_weights(trunks):
    _, trunk, fine = trunks
    side = trunk.output_shape[1]
    assert fine.output_shape[1] in (2 * side, 2 * side + 1)
    assert [weight.path for weight in fine.weights] == [weight.path for weight in trunk.weights]
    assert [layer.name for layer in fine.layers] == [layer.name for layer in trunk.layers]


def test_the_coarse_map_is_every_second_position_of_the_finer_one(trunks):
    name, trunk, fine = trunks
    images = np.random.default_rng(0).normal(size=(2, *trunk.input_shape[1:])).astype("float32")
    for layer in LAST_STEP[name]:
        coarse, whole = (
            keras.Model(model.inputs[0], model.get_layer(layer).output)(images).numpy()
            for model in (trunk, fine)
        )
        side = coarse.shape[1]
        # Windows of the two begin at the same pixels, or one apart. Those at the edges reach into
        # the padding.
        found = [whole[:, start::2, start::2][:, :side, :side] for start in (0, 1)]
        inside = slice(1, side - 1) if side > 2 else slice(0, 1)
        assert any(
            np.allclose(each[:, inside, inside], coarse[:, inside, inside], atol=1e-4)
            for each in found
        ), layer


def test_a_saved_classifier_keeps_it(tmp_path):
    classifier = gc_net.Classifier("tiny", 3, 32, weights=None, finer_map=True)
    images = np.random.default_rng(0).uniform(0, 255, (2, 32, 32, 3)).astype("float32")
    classifier.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.finer_map
    assert loaded.trunk.output_shape == (None, 8, 8, 32)
    np.testing.assert_allclose(loaded(images), classifier(images), atol=1e-6)
    folded = call_folded(loaded.trunk, loaded.normalize(images), training=False)
    np.testing.assert_allclose(folded, loaded.trunk(loaded.normalize(images)), atol=1e-4)


def test_imagenet_weights_fit():
    classifier = gc_net.Classifier("efficientnet_lite0", 1000, 64, finer_map=True)
    plain = gc_net.Classifier("efficientnet_lite0", 1000, 64)
    assert classifier.trunk.output_shape[1:3] == (4, 4)
    for ours, theirs in zip(classifier.weights, plain.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
