import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading

import cv2
import numpy as np
import pytest
import requests
import werkzeug.serving
import werkzeug.test

from gc_net.inference.localizer import load
from gc_net.saving import save_model
from gc_net.serving import Client
from gc_net.serving.run_demo import make_app
from tests.inference.models import CLASS_NAMES, always_say, noise, tiny_model, varied_model

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


def encode(image, suffix=".png"):
    return cv2.imencode(suffix, image[..., ::-1])[1].tobytes()


def b64(data):
    return {"b64": base64.b64encode(data).decode()}


@contextlib.contextmanager
def running(app):
    """Yield the address of a server of `app`."""
    server = werkzeug.serving.make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


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


CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
BLUE_BOX = """canvas => {
  const {width, height} = canvas;
  const {data} = canvas.getContext("2d").getImageData(0, 0, width, height);
  const xs = [], ys = [];
  for (let pixel = 0; pixel < width * height; pixel++) {
    if (data[4 * pixel] < 80 && data[4 * pixel + 2] > 200) {
      xs.push(pixel % width);
      ys.push(Math.floor(pixel / width));
    }
  }
  return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
}"""
RED_AT = """(canvas, place) => canvas.getContext("2d").getImageData(...place, 1, 1).data[0]"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_the_page_draws_the_box_at_the_right_place_in_chromium(tmp_path):
    playwright = pytest.importorskip("playwright.sync_api")
    model = tiny_model("rotated_rectangle")
    always_say(model, [0.6, 0.5, 0.4, 0.6, 0.0], [0.0, 5.0, 0.0])
    save_model(tmp_path / "model", model, CLASS_NAMES)
    app = make_app(tmp_path / "model", "birds")
    grey = np.full((100, 300, 3), 200, np.uint8)
    for name, data in {
        "a b.png": encode(grey), "c.webp": encode(grey, ".webp"), "no image.png": b"hello",
        "cut.png": encode(noise(80, 80))[:300],
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(data)
    with running(app) as address, playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        page = chromium.new_page(viewport={"width": 390, "height": 800})  # a phone's
        page.goto(address)
        page.keyboard.press("Tab")  # the first stop chooses files
        assert page.evaluate("document.activeElement.id") == "files"
        page.set_input_files("#files", [tmp_path / "a b.png", tmp_path / "c.webp"])
        page.get_by_text("2 images done.").wait_for()
        assert page.evaluate("document.body.scrollWidth <= innerWidth")
        for article in page.locator("article").all():
            assert CLASS_NAMES[1] in article.inner_text()
            # The box goes from 0.4 to 0.8 of 300, and from 0.2 to 0.8 of 100.
            assert "120, 20, 240, 80 of 300 × 100 pixels" in article.inner_text()
            shape, masked = article.locator("canvas").all()
            assert shape.evaluate(BLUE_BOX) == pytest.approx([120, 20, 240, 80], abs=2)
            masked = [masked.evaluate(RED_AT, place) for place in ([10, 50], [180, 50])]
            assert masked == pytest.approx([127, 200], abs=3)
        page.set_input_files("#files", [tmp_path / "no image.png", tmp_path / "cut.png"])
        page.get_by_text("2 images done.").wait_for()
        page.get_by_text("no image.png is not an image that this browser can read.").wait_for()
        assert page.locator("[role=alert]").count() >= 1
        chromium.close()


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
