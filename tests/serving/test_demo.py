import base64
import contextlib
import hashlib
import json
import re
import subprocess
import sys
import threading
import types

import numpy as np
import pytest
import requests
import werkzeug.test

from gc_net.localizer import load
from gc_net.serving import Client
from gc_net.serving.demo import DemoApp
from gc_net.serving.demo_server import make_app, make_server
from tests.data import encoded
from tests.models import localizer_of
from tests.prediction.models import CLASS_NAMES, encode, noise, varied_model
from tests.serving.servers import running

PREDICT = "/v1/models/birds:predict"


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    localizer_of(varied_model(), CLASS_NAMES).save(folder)
    return folder


@pytest.fixture(scope="module")
def app(model_dir):
    return make_app(model_dir, "birds", max_bytes=100_000, max_pixels=10_000)


@pytest.fixture(scope="module")
def browser(app):
    return werkzeug.test.Client(app)


@contextlib.contextmanager
def waitress_running(app):
    """Serve as `gc-net serve` does."""
    server = make_server(app, "127.0.0.1", 0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.effective_port}"
    finally:
        server.close()
        thread.join(10)


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
    "ragged": b'{"inputs": [[[[1, 2, 3]], [[1, 2]]]]}',
    "no channels": b'{"inputs": [[[1, 2, 3]]]}',
    "no numbers": b'{"inputs": [[[["a", "b", "c"]]]]}',
    "not finite": b'{"inputs": [[[[NaN, 1, 2]]]]}',
    **{
        kind: json.dumps({"signature_name": "serve_bytes", "inputs": [b64(data)]}).encode()
        for kind, data in {**encoded.ANIMATIONS, "GIF that lies": encoded.LYING_GIF}.items()
        if kind != "PNG"
    },
    "nested": b'{"inputs": ' + b"[" * 5000 + b"]" * 5000 + b"}",
}


@pytest.mark.parametrize("name", BAD)
def test_a_malformed_request_gets_400_and_a_message(browser, name):
    answer = browser.post(PREDICT, data=BAD[name])
    assert answer.status_code == 400
    assert answer.json["error"]
    assert "Traceback" not in answer.text and "Graph execution" not in answer.text


def test_an_image_that_cannot_be_decoded_is_named_with_its_reason(browser):
    sound, cut = encode(noise(60, 60)), encode(noise(60, 60))[:200]
    webp = encoded.ANIMATIONS["WebP"]
    jpeg = encoded.jpeg(noise(60, 60))
    expected = {
        (sound, cut): "Image 1: truncated or damaged: Invalid PNG data, size 200.",
        (sound, webp): "Image 1: a WebP image; expected JPEG or PNG.",
        (b"hello",): "Image 0: not a JPEG",
        (sound, jpeg[:20]): "Image 1: truncated",
    }
    for files, reason in expected.items():
        answer = post_files(browser, files)
        assert answer.status_code == 400
        assert answer.json["error"].startswith(reason)


@pytest.mark.parametrize("form", ["files", "numbers"])
def test_too_many_images_or_pixels_get_413_before_anything_is_decoded(app, form, monkeypatch):
    def answer(count, side):
        images = [np.zeros((side, side, 3), np.uint8)] * count
        browser = werkzeug.test.Client(app)
        if form == "files":
            return post_files(browser, [encode(image) for image in images])
        return browser.post(PREDICT, json={"inputs": [image.tolist() for image in images]})

    monkeypatch.setattr(app, "max_bytes", 200_000)
    assert answer(32, 1).status_code == 200
    # What cannot be called would be an error of the server.
    not_callable = {
        name: types.SimpleNamespace(input_signature=function.input_signature)
        for name, function in app.model._functions.items()
    }
    monkeypatch.setattr(app.model, "_functions", not_callable)
    many, large = answer(33, 1), answer(1, 101)
    assert many.status_code == large.status_code == 413
    assert many.json["error"] == "33 images in one request, the limit is 32."
    assert "10,201" in large.json["error"] and "10,000" in large.json["error"]


def post_files(browser, files):
    body = {"signature_name": "serve_bytes", "inputs": [b64(data) for data in files]}
    return browser.post(PREDICT, json=body)


def test_other_paths_methods_and_sizes_get_their_status(browser):
    assert browser.get("/v1/models/birds").json["model_version_status"][0]["state"] == "AVAILABLE"
    assert browser.get("/v1/models/cats").status_code == 404
    assert browser.get(PREDICT).status_code == browser.put("/").status_code == 405
    assert browser.get(PREDICT).headers["Allow"] == "POST"
    assert browser.put("/").headers["Allow"] == "GET, HEAD"
    assert browser.post(PREDICT, data=b" " * 100_001).status_code == 413
    assert "error" in browser.get("/x").json
    page = browser.get("/")
    assert page.status_code == 200 and 'content="birds"' in page.text
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    (script,) = re.findall("<script>(.*?)</script>", page.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy


def test_a_model_whose_name_is_markup_is_escaped(app):
    page = werkzeug.test.Client(DemoApp('"><script>x', app.model, 10)).get("/").text
    assert 'content="&#34;&gt;&lt;script&gt;x"' in page and page.count("<script") == 1


FOREIGN = {
    "a host name redirected here": {"Host": "evil.example:8600"},
    "no host name": {"Host": ""},
    "half an address": {"Host": "[::1"},
    "a page at half an address": {"Origin": "http://[::1"},
    "a page elsewhere": {"Origin": "https://evil.example"},
    "the same machine, another port": {"Origin": "http://localhost:9999"},
    "a sandboxed frame": {"Origin": "null"},
    "a page elsewhere, by its mark": {"Sec-Fetch-Site": "cross-site"},
    "a sibling domain": {"Sec-Fetch-Site": "same-site"},
}


@pytest.mark.parametrize("page", FOREIGN)
def test_pages_of_other_hosts_are_refused_before_anything_is_read(app, page, monkeypatch):
    monkeypatch.setattr(app.model, "predict", lambda body: pytest.fail("was answered"))
    answer = werkzeug.test.Client(app).post(PREDICT, data=b"{}", headers=FOREIGN[page])
    assert answer.status_code == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


OWN = {
    "the page itself": {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"},
    "in numbers": {"Host": "192.168.1.5:8600", "Origin": "http://192.168.1.5:8600"},
    "in longer numbers": {"Host": "[::1]:8600", "Origin": "http://[::1]:8600"},
    "behind a proxy with a certificate": {"Host": "localhost", "Origin": "https://localhost"},
    "by a name that is allowed": {"Host": "Demo.example", "Origin": "https://demo.example"},
    "no browser": {},
}


@pytest.mark.parametrize("page", OWN)
def test_the_own_page_and_other_programs_are_answered(app, page, monkeypatch):
    monkeypatch.setattr(app.model, "predict", lambda body: b"{}")
    monkeypatch.setattr(app, "allowed_hosts", ("demo.example",))
    browser = werkzeug.test.Client(app)
    assert browser.post(PREDICT, data=b"{}", headers=OWN[page]).status_code == 200
    page = browser.get("/", headers={"Sec-Fetch-Site": "cross-site"})  # a link that was followed
    assert page.status_code == 200 and "frame-ancestors 'none'" in str(page.headers)


def test_many_images_may_not_have_more_pixels_together_than_one(browser):
    files = [b64(encode(noise(60, 60, seed))) for seed in range(3)]
    answers = [
        browser.post(PREDICT, json={"signature_name": "serve_bytes", "inputs": files[:number]})
        for number in (2, 3)
    ]
    assert [answer.status_code for answer in answers] == [200, 413]
    assert "10,800 with those before it" in answers[1].json["error"]


@pytest.mark.parametrize("chunked", [False, True])
def test_an_upload_beyond_the_limit_is_cut_off_by_the_server_that_is_run(app, chunked):
    with waitress_running(app) as address:
        body = iter([b" " * 50_000] * 60) if chunked else b" " * 3_000_000
        try:
            answer = requests.post(f"{address}{PREDICT}", data=body, timeout=30)
        except requests.ConnectionError:
            return  # closed while it was still being sent, which is as good
        assert answer.status_code == 413


def test_a_failure_inside_is_not_shown(app, browser, monkeypatch):
    def fail(body):
        raise RuntimeError("secret")

    monkeypatch.setattr(app.model, "predict", fail)
    answer = browser.post(PREDICT, data=b"{}")
    assert answer.status_code == 500
    assert "secret" not in answer.text


@pytest.mark.slow
def test_the_tool_serves_the_page_on_this_machine(model_dir):
    command = [sys.executable, "-m", "tools.serve", f"--model={model_dir}", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().split()[0]
            assert address.startswith("http://127.0.0.1:")
            answer = requests.get(address, timeout=60)
            assert "choose images" in answer.text
            with Client(address, model_dir.name) as client:  # the name of its folder
                assert client.predict(noise(9, 9))[0].size == (9, 9)
        finally:
            process.terminate()
