"""Ports and conversions against PyTorch, whose results `make_torch_fixtures` has written down."""

import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest

from gc_net import backbones, weights
from gc_net.backbones import convert
from gc_net.backbones.convert import convert_weights
from tests.backbones import formula

FIXTURES = np.load(pathlib.Path(__file__).with_name("torch_fixtures.npz"))


def state_dict(name, part=""):
    shapes = (line.split() for line in FIXTURES[f"{name}_shapes"])
    return {
        key: formula.state_array(key, tuple(map(int, sides)))
        for key, *sides in shapes
        if key.startswith(part)
    }


@pytest.fixture(scope="module")
def googlenet_file(tmp_path_factory):
    """GoogLeNet's weights by formula, through the converter; with what torchvision adds."""
    folder = tmp_path_factory.mktemp("googlenet")
    state = state_dict("googlenet")
    state["conv1.bn.num_batches_tracked"] = np.array(7)
    state["aux1.fc1.weight"] = np.zeros((4, 4), "float32")
    np.savez(folder / "state.npz", **state)
    convert_weights("googlenet", str(folder / "state.npz"), folder / "out.npz", dtype="float32")
    return folder / "out.npz"


def run(name, size, num_outputs, file):
    backbone = backbones.get(name)
    trunk = backbone.trunk(size)
    head = backbone.head(num_outputs, trunk.output_shape[1:])
    assert backbone.load_weights(trunk, head, file) == []
    features = trunk(backbone.normalizer()(formula.image(size)))
    return np.array(features), np.array(head(features))


# Sizes at which windows hang over the end of even and of odd maps.
@pytest.mark.parametrize("size", [64, 75, 120])
def test_googlenet_computes_what_pytorch_does(googlenet_file, size):
    features, outputs = run("googlenet", size, 10, googlenet_file)
    expected = FIXTURES[f"googlenet_features_{size}"]  # every 16th channel
    np.testing.assert_allclose(features[..., ::16], expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(outputs, FIXTURES[f"googlenet_outputs_{size}"], rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_vgg16_computes_what_pytorch_does_at_any_size(tmp_path):
    np.savez(tmp_path / "state.npz", **state_dict("vgg16"))
    convert_weights("vgg16", str(tmp_path / "state.npz"), tmp_path / "out.npz", dtype="float32")
    for size in (64, 224):
        outputs = run("vgg16", size, 10, tmp_path / "out.npz")[1]
        np.testing.assert_allclose(outputs, FIXTURES[f"vgg16_outputs_{size}"], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("size", [107, 128])
def test_the_shipped_lite0_weights_give_what_the_published_ones_do(size):
    outputs = run("efficientnet_lite0", size, 1000, "imagenet")[1]
    expected = FIXTURES[f"lite0_outputs_{size}"]
    # Half precision costs a few hundredths of the logits, which spread over ±4 here.
    np.testing.assert_allclose(outputs, expected, atol=0.06)
    assert np.sqrt(np.mean((outputs - expected) ** 2)) < 0.015
    np.testing.assert_array_equal(np.argsort(outputs)[:, -3:], np.argsort(expected)[:, -3:])


@pytest.mark.parametrize("name", ["efficientnet_lite1", "efficientnet_lite2"])
def test_the_larger_lite_networks_compute_what_pytorch_does(name, tmp_path):
    np.savez(tmp_path / "state.npz", **state_dict(name))
    convert_weights(name, str(tmp_path / "state.npz"), tmp_path / "out.npz", dtype="float32")
    for size in (107, 128):
        outputs = run(name, size, 1000, tmp_path / "out.npz")[1]
        expected = FIXTURES[f"{name}_outputs_{size}"]
        np.testing.assert_allclose(outputs, expected, rtol=1e-3, atol=1e-3)


def test_the_weights_of_vgg16_without_its_head_are_converted_too(tmp_path):
    np.savez(tmp_path / "state.npz", **state_dict("vgg16", part="features."))
    convert_weights("vgg16", str(tmp_path / "state.npz"), tmp_path / "out.npz")
    arrays = weights.read_weights_npz(tmp_path / "out.npz")
    assert len(arrays) == 26 and all(key.startswith("trunk/") for key in arrays)


def test_weights_of_another_network_are_not_converted(tmp_path):
    np.savez(tmp_path / "state.npz", **{"layer1.0.conv1.weight": np.zeros((1, 1, 1, 1))})
    with pytest.raises(ValueError, match=r"1 unknown parameters.*layer1\.0\.conv1\.weight"):
        convert_weights("googlenet", str(tmp_path / "state.npz"), tmp_path / "out.npz")
    with pytest.raises(ValueError, match=r"'inception_v3'.*keras\.applications"):
        convert_weights("inception_v3", str(tmp_path / "state.npz"), tmp_path / "out.npz")
    assert not (tmp_path / "out.npz").exists()


def test_incomplete_weights_are_not_converted(tmp_path):
    state = state_dict("googlenet")
    del state["inception4b.branch3.1.conv.weight"]
    np.savez(tmp_path / "state.npz", **state)
    with pytest.raises(ValueError, match="not found: trunk/inception4b_branch3_1_conv/kernel"):
        convert_weights("googlenet", str(tmp_path / "state.npz"), tmp_path / "out.npz")


def test_reading_a_pth_file_without_pytorch_tells_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "state.pth").write_bytes(b"")
    with pytest.raises(ImportError, match=r"pip install torch.*\.npz"):
        convert_weights("googlenet", str(tmp_path / "state.pth"), tmp_path / "out.npz")
    with pytest.raises(FileNotFoundError, match=r"absent\.pth"):
        convert_weights("googlenet", str(tmp_path / "absent.pth"), tmp_path / "out.npz")


@pytest.mark.parametrize("wrap", [lambda state: state, lambda state: {"state_dict": state}])
def test_a_state_dict_may_lie_in_a_checkpoint_of_a_training(tmp_path, monkeypatch, wrap):
    weights = np.arange(3.0)
    state = {"features.0.bias": types.SimpleNamespace(numpy=lambda: weights)}
    torch = types.SimpleNamespace(load=lambda source, **options: wrap(state))
    monkeypatch.setitem(sys.modules, "torch", torch)
    (tmp_path / "state.pth").write_bytes(b"")
    found = convert._read_state(str(tmp_path / "state.pth"))
    assert list(found) == ["features.0.bias"] and found["features.0.bias"] is weights


def test_the_tool_says_in_a_line_what_is_wrong_with_a_file(tmp_path):
    (tmp_path / "state.pth").write_bytes(b"")
    code = """
import sys, types
from absl import app
from gc_net.backbones import convert
from tools import convert_weights

class Own(Exception):
    pass

def load(source, **options):
    if isinstance(found, Exception):
        raise found
    return found

def main(argv):
    global found
    refused = PermissionError(13, "Permission denied", convert_weights.FLAGS.source)
    for found in (EOFError("Ran out of input"), Own("cut off\\nat byte 7"), refused, {"epoch": 3}):
        try:
            convert_weights.main(argv)
        except SystemExit as error:
            print(error.code)

sys.modules["torch"] = types.SimpleNamespace(load=load)
app.run(main)
"""
    command = [sys.executable, "-c", code, "--backbone=vgg16", f"--source={tmp_path}/state.pth"]
    command.append(f"--output={tmp_path}/out.npz")
    ended = subprocess.run(command, capture_output=True, text=True)
    lines = ended.stdout.splitlines()
    assert all(line.startswith("convert_weights: ") and "state.pth" in line for line in lines)
    reasons = ["(EOFError: Ran out of input).", "(Own: cut off).", "Permission denied", "'int' obj"]
    for line, reason in zip(lines, reasons, strict=True):
        assert reason in line


def test_the_tool_lists_its_flags_without_loading_keras():
    code = (
        "import sys, tools.convert_weights; "
        "sys.exit(bool({'keras', 'tensorflow', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
