"""Files from elsewhere can be wrong, but they cannot run code or reach other files."""

import ast
import base64
import json
import os
import pathlib
import random

import keras
import numpy as np
import pytest

from gc_net import saving
from gc_net.saving import load_localizer
from gc_net.training.checkpoint import Checkpoints
from gc_net.weights import read_weights_npz
from tests.faults.test_mutated_annotations import mutate_json
from tests.models import localizer_of
from tests.prediction.models import CLASS_NAMES, varied_model

ROOT = pathlib.Path(__file__).parent.parent
SOURCES = sorted(
    path for folder in ("gc_net", "tools", "examples") for path in (ROOT / folder).rglob("*.py")
)
# Modules and functions that run what they are given.
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
FORBIDDEN_CALLS = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "np.fromregex",
    "keras.models.load_model", "keras.saving.load_model", "yaml.load", "yaml.unsafe_load",
    "keras.config.enable_unsafe_deserialization", "tempfile.mktemp",
}  # fmt: skip


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_source_file_can_run_what_it_reads(path):
    tree = ast.parse(path.read_text("utf-8"))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
            found += [name for name in names if name.split(".")[0] in FORBIDDEN_MODULES]
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            found += [name] if name in FORBIDDEN_CALLS else []
            keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            if name in ("np.load", "numpy.load") and keywords.get("allow_pickle") != "False":
                found.append("np.load without allow_pickle=False")
            for keyword, value in (("shell", "True"), ("safe_mode", "False")):
                if keywords.get(keyword) == value:
                    found.append(f"{name}({keyword}={value})")
            if keywords.get("allow_pickle", "False") != "False":
                found.append(f"{name}(allow_pickle={keywords['allow_pickle']})")
    assert not found


@pytest.fixture(scope="module")
def whole_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    localizer_of(varied_model(), CLASS_NAMES).save(folder)
    return folder


@pytest.fixture
def model(whole_model, tmp_path):
    """Function of a changed `detector` entry to the folder of a model that has it."""

    def changed(entry):
        record = json.loads((whole_model / "model.json").read_text("utf-8"))
        record["localizer"]["detector"] = entry
        (tmp_path / "model.json").write_text(json.dumps(record))
        (tmp_path / "weights.npz").write_bytes((whole_model / "weights.npz").read_bytes())
        return tmp_path

    return changed


def lambda_layer(marker):
    """The configuration of a layer that makes a file when it is called."""
    code = compile(f"lambda x: (open({str(marker)!r}, 'w').close(), x)[1]", "", "eval")
    code = code.co_consts[0]
    import marshal  # what an attacker would use

    body = base64.b64encode(marshal.dumps(code)).decode()
    function = {
        "class_name": "__lambda__",
        "config": {"code": body, "defaults": None, "closure": None},
    }
    return {
        "module": "keras.layers",
        "class_name": "Lambda",
        "config": {"name": "layer", "function": function},
        "registered_name": None,
    }


def hostile(marker):
    layer = lambda_layer(marker)
    wrapped = {
        "module": "keras",
        "class_name": "Sequential",
        "config": {"name": "s", "layers": [layer], "build_input_shape": [None, 4]},
        "registered_name": "Sequential",
    }
    command = {"module": "os", "class_name": "system", "config": f"touch {marker}"}
    called = {
        "module": "builtins",
        "class_name": "function",
        "config": "system",
        "registered_name": "system",
    }
    download = {
        "module": "keras.utils",
        "class_name": "get_file",
        "config": {"fname": str(marker), "origin": "http://127.0.0.1:9/x"},
    }
    return {
        "lambda": layer,
        "lambda in a model": wrapped,
        "command": {**command, "registered_name": None},
        "function": called,
        "download": {**download, "registered_name": None},
        "another model": keras.saving.serialize_keras_object(keras.layers.ReLU(name="relu")),
        "text": "relu",
        "nothing": None,
    }


@pytest.mark.parametrize("kind", hostile("marker"))
def test_a_model_file_that_brings_code_is_refused_and_runs_nothing(model, tmp_path, kind):
    marker = tmp_path / "marker"
    with pytest.raises(ValueError, match=r"model\.json"):
        load_localizer(model(hostile(marker)[kind]))
    assert not marker.exists()


def test_a_model_file_that_was_damaged_is_a_value_error_and_nothing_else(whole_model, tmp_path):
    text = (whole_model / "model.json").read_text("utf-8")
    (tmp_path / "weights.npz").write_bytes((whole_model / "weights.npz").read_bytes())
    rng = random.Random(0)
    refused = 0
    for _ in range(25):
        (tmp_path / "model.json").write_bytes(mutate_json(text, rng))
        try:
            load_localizer(tmp_path)
        except ValueError:
            refused += 1
    assert refused > 5


class Attack:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("read", [read_weights_npz, "checkpoint"])
def test_an_array_file_that_brings_objects_is_refused_and_runs_nothing(tmp_path, read, caplog):
    marker = tmp_path / "marker"
    path = tmp_path / "step-000000001.npz"
    np.savez(path, record=np.array([Attack(marker)], object))
    if read == "checkpoint":
        assert Checkpoints(str(tmp_path)).load() is None
        assert "is damaged" in caplog.text
    else:
        with pytest.raises(ValueError, match="not a readable"):
            read(path)
    assert not marker.exists()
    with np.load(path, allow_pickle=True) as file:  # the attack is a real one
        file["record"]
    assert os.path.exists(marker)


def test_a_model_file_that_names_weights_has_them_neither_fetched_nor_read():
    network = {"class_name": "Detector", "config": {"backbone": "vgg16"}}  # would be ImageNet's
    other = {"class_name": "Other", "config": {"weights": "/etc/passwd"}}
    config = {"class_name": "GCNet", "config": {"detector": network, "layers": [other]}}
    saving._leave_weights_out(config)
    assert network["config"] == {"backbone": "vgg16", "weights": None}
    assert other["config"] == {"weights": None}


def test_a_network_under_another_name_has_no_weights_fetched_either(whole_model, model):
    entry = json.loads((whole_model / "model.json").read_text("utf-8"))["localizer"]["detector"]
    entry["class_name"] = "Other"  # it is the registered name that Keras builds it by
    entry["config"].pop("weights", None)  # which would mean those of ImageNet
    found = load_localizer(model(entry)).detector.get_weights()
    for one, other in zip(found, load_localizer(whole_model).detector.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
