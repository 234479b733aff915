import base64
import json
import subprocess
import sys

import numpy as np
import pytest
import requests
import werkzeug.test

from gc_net.inference.localizer import load
from gc_net.saving import save_model
from gc_net.serving import Client
from gc_net.serving.run_demo import make_app
from tests.inference.models import CLASS_NAMES, encode, noise, varied_model
from tests.serving.servers import running

PREDICT = "/v1/models/birds:predict"


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save_model(folder, varied_model(), CLASS_NAMES)
    return folder


@pytest.fixture(scope="module")
def app(model_dir):
    return make_app(model_dir, "birds", max_bytes=100_000, max_pixels=10_000)


@pytest.fixture(scope="module")
def browser(app):
    return werkzeug.test.Client(app)


def b64(data):
    return {"b64": base64.b64encode(data).decode()}


def test_the_client_can_ask_the_demo_as_it_asks_tf_serving(app, model_dir):
    images = [noise(32, 32, 1), noise(32, 32, 2)]
    with running(app) as address, Client(address, "birds") as client:
        found = client.predict(images)
    for prediction, expected in zip(found, load(model_dir).predict(images), strict=True):
        assert prediction.box_xyxy == pytest.approx(expected.box_xyxy, abs=0.01)
        assert prediction.class_name == expected.class_name


def test_all_forms_of_a_request_give_the_same(browser):
    image = noise(20, 30)
    file = b64(encode(image))
    columns = [
        {"signature_name": "serve_bytes", "inputs": {"image_bytes": [file]}},
        {"signature_name": "serve_bytes", "inputs": [file]},
        {"inputs": {"images": [image.tolist()]}},
        {"signature_name": "serve_uint8", "inputs": [image.tolist()]},
    ]
    rows = [
        {"signature_name": "serve_bytes", "instances": [file]},
        {"signature_name": "serve_bytes", "instances": [{"image_bytes": file}]},
        {"instances": [image.tolist()]},
    ]
    boxes = [browser.post(PREDICT, json=body).json["outputs"]["boxes"][0] for body in columns]
    boxes += [browser.post(PREDICT, json=body).json["predictions"][0]["boxes"] for body in rows]
    assert np.ptp(boxes, axis=0).max() < 1e-5


BAD = {
    "no JSON": b"{",
    "no object": b"[]",
    "no inputs": b"{}",
    "both": b'{"inputs": [1], "instances": [1]}',
    "unknown signature": b'{"signature_name": "x", "inputs": [1]}',
    "odd signature": b'{"signature_name": [], "inputs": [1]}',
    "no list": b'{"signature_name": "serve_bytes", "inputs": 3}',
    "empty": b'{"signature_name": "serve_bytes", "inputs": []}',
    "no base64": b'{"signature_name": "serve_bytes", "inputs": [{"b64": "?"}]}',
    "no file": b'{"signature_name": "serve_bytes", "inputs": ["x"]}',
    "no image": json.dumps({"signature_name": "serve_bytes", "inputs": [b64(b"hello")]}).encode(),
    "cut off": json.dumps(
        {"signature_name": "serve_bytes", "inputs": [b64(encode(noise(60, 60))[:200])]}
    ).encode(),
    "too many pixels": json.dumps(
        {"signature_name": "serve_bytes", "inputs": [b64(encode(noise(101, 100)))]}
    ).encode(),
    "ragged": b'{"inputs": [[[[1, 2, 3]], [[1, 2]]]]}',
    "no channels": b'{"inputs": [[[1, 2, 3]]]}',
    "no numbers": b'{"inputs": [[[["a", "b", "c"]]]]}',
    "not finite": b'{"inputs": [[[[NaN, 1, 2]]]]}',
    "nested": b'{"inputs": ' + b"[" * 5000 + b"]" * 5000 + b"}",
}


@pytest.mark.parametrize("name", BAD)
def test_a_malformed_request_gets_400_and_a_message(browser, name):
    answer = browser.post(PREDICT, data=BAD[name])
    assert answer.status_code == 400
    assert answer.json["error"]
    assert "Traceback" not in answer.text


def test_other_paths_methods_and_sizes_get_their_status(browser):
    assert browser.get("/v1/models/birds").json["model_version_status"][0]["state"] == "AVAILABLE"
    assert browser.get("/v1/models/cats").status_code == 404
    assert browser.get(PREDICT).status_code == 405
    assert browser.post(PREDICT, data=b" " * 100_001).status_code == 413
    assert "error" in browser.get("/x").json
    page = browser.get("/")
    assert page.status_code == 200 and 'content="birds"' in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]


def test_a_failure_inside_is_not_shown(app, browser, monkeypatch):
    def fail(body):
        raise RuntimeError("secret")

    monkeypatch.setattr(app.model, "predict", fail)
    answer = browser.post(PREDICT, data=b"{}")
    assert answer.status_code == 500
    assert "secret" not in answer.text


@pytest.mark.slow
def test_the_tool_serves_the_page_on_this_machine(model_dir):
    command = [sys.executable, "-m", "tools.demo_server", f"--model={model_dir}", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().split()[0]
            assert address.startswith("http://127.0.0.1:")
            answer = requests.get(address, timeout=60)
            assert "choose images" in answer.text
            with Client(address, "model") as client:
                assert client.predict(noise(9, 9))[0].size == (9, 9)
        finally:
            process.terminate()
