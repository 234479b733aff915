"""The backend of Label Studio, asked as Label Studio asks."""

import base64
import json
import os

import pytest
import werkzeug.test

from gc_net.localizer import load
from gc_net.prediction.formats.label_studio import region
from gc_net.serving.demo_server import model_name
from gc_net.serving.label_studio import LabelStudioApp
from tests.models import localizer_of
from tests.prediction.models import CLASS_NAMES, encode, noise, varied_model
from tests.prediction.readers import run_reader

LABELS = "".join(f"<Label value='{name}'/>" for name in ("ant, red", "the &quot;bee&quot;", "雛"))
RECTANGLES = (
    "<View><Image name='picture' value='$photo'/>"
    "<RectangleLabels name='frame' toName='picture'>{labels}</RectangleLabels></View>"
)
CONFIG = RECTANGLES.format(labels="")
ELLIPSES = CONFIG.replace("Rectangle", "Ellipse")


@pytest.fixture(scope="module")
def localizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    localizer_of(varied_model(), CLASS_NAMES).save(folder)
    return load(folder)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root = tmp_path_factory.mktemp("media")
    (root / "photos" / "birds").mkdir(parents=True)
    (root / "photos" / "upload" / "3").mkdir(parents=True)
    for name in ("birds/a b.png", "upload/3/0a1b2c3d-c.png", "../secret.png"):
        (root / "photos" / name).write_bytes(encode(noise(40, 60)))
    os.symlink(root / "secret.png", root / "photos" / "link.png")
    return root / "photos"


@pytest.fixture(scope="module")
def client(localizer, photos):
    app = LabelStudioApp("birds, gc_net", localizer, [str(photos)], max_images=40)
    return werkzeug.test.Client(app)


def ask(client, *addresses, config=CONFIG):
    """Send what Label Studio sends for tasks with these images."""
    tasks = [
        {"id": number, "data": {"photo": address}, "annotations": [], "predictions": []}
        for number, address in enumerate(addresses)
    ]
    body = {
        "tasks": tasks,
        "project": "1.1700000000",
        "label_config": config,
        "model_version": None,
        "params": {"login": None, "password": None, "context": None},
    }
    return client.post("/predict", json=body)


def test_it_is_healthy_and_can_be_set_up(client):
    for path in ("/health", "/"):
        answer = client.get(path)
        assert answer.status_code == 200 and answer.json["status"] == "UP"
    body = {
        "project": "1.1700000000",
        "schema": RECTANGLES.format(labels=LABELS),
        "hostname": "http://localhost:8080",
        "access_token": "x",
        "extra_params": None,
    }
    answer = client.post("/setup", json=body)
    assert (answer.status_code, answer.json) == (200, {"model_version": "birds, gc_net"})
    assert client.get("/versions").json == {"versions": ["birds, gc_net"]}
    assert client.post("/webhook", json={"action": "ANNOTATION_CREATED"}).status_code == 201


@pytest.mark.parametrize("config", [RECTANGLES.format(labels=LABELS), ELLIPSES])
def test_label_studio_finds_no_fault_with_the_answers(config, client, tmp_path):
    address = "birds/a b.png"
    (prediction,) = ask(client, address, config=config).json["results"]
    assert prediction["result"]
    task = {"data": {"photo": address}, "predictions": [prediction]}
    (tmp_path / "label_studio.xml").write_text(config, encoding="utf-8")
    (tmp_path / "label_studio.json").write_text(json.dumps([task]), encoding="utf-8")
    (found,) = run_reader("by_label_studio.py", "label_studio_sdk", tmp_path)
    assert found["errors"] == [[]] and found["without_image"] == []


@pytest.mark.parametrize(
    "address",
    [
        "/data/local-files/?d=birds/a%20b.png",
        "http://localhost:8080/data/local-files/?d=birds/a%20b.png",
        "/data/upload/3/0a1b2c3d-c.png",
        "birds/a b.png",
        "data:image/png;base64," + base64.b64encode(encode(noise(40, 60))).decode(),
    ],
)
def test_an_image_is_found_by_its_address_or_in_the_request(address, client, localizer):
    answer = ask(client, address)
    assert answer.status_code == 200
    (entry,) = answer.json["results"]
    assert entry["model_version"] == answer.json["model_version"] == "birds, gc_net"
    (expected,) = localizer.predict([noise(40, 60)])
    assert entry["score"] == pytest.approx(expected.confidence, abs=1e-4)
    (result,) = entry["result"]
    assert (result["from_name"], result["to_name"]) == ("frame", "picture")
    assert result["type"] == "rectanglelabels"
    assert (result["original_width"], result["original_height"]) == (60, 40)
    value = dict(result["value"])
    assert value.pop("rectanglelabels") == [expected.class_name]
    assert value == pytest.approx(region(expected, "rectangle")[1], abs=1e-2)


def test_a_set_up_with_ellipses_gets_ellipses(client, localizer):
    answer = ask(client, "birds/a b.png", config=ELLIPSES)
    (result,) = answer.json["results"][0]["result"]
    assert result["type"] == "ellipselabels"
    assert {"x", "y", "radiusX", "radiusY"} < set(result["value"])


def test_only_classes_of_the_set_up_are_given(client):
    labels = [f"<Label value='{name}'/>" for name in ("雛", "Küken 雛")]
    answer = ask(client, "birds/a b.png", config=RECTANGLES.format(labels=labels[1]))
    (result,) = answer.json["results"][0]["result"]
    assert result["value"]["rectanglelabels"] == ["Küken 雛"]
    answer = ask(client, "birds/a b.png", config=RECTANGLES.format(labels=labels[0]))
    assert answer.json["results"][0]["result"] == []


@pytest.mark.parametrize(
    "address",
    [
        "../secret.png",
        "/data/local-files/?d=../secret.png",
        "/data/local-files/?d=..%2Fsecret.png",
        "birds/../../secret.png",
        "link.png",
        "/etc/passwd",
        "file:///etc/passwd",
        "http://169.254.169.254/latest/meta-data",
        "birds",
        "a\0.png",
        "data:image/png;base64,?",
        "data:image/png;base64,aGVsbG8=",
        3,
    ],
)
def test_what_lies_elsewhere_or_is_no_image_gets_no_region(address, client):
    """One that can be read goes along: the others must not stop it."""
    answer = ask(client, address, "birds/a b.png")
    assert answer.status_code == 200
    nothing, entry = answer.json["results"]
    assert nothing["result"] == [] and nothing["score"] == 0
    assert len(entry["result"]) == 1


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/predict", b"{", "Expected JSON"),
        ("/predict", b"[]", "Expected a JSON object"),
        ("/predict", b"{}", "Expected a list of tasks"),
        ("/predict", b'{"tasks": []}', "Expected the labelling set-up"),
        ("/predict", b'{"tasks": [], "label_config": "<View"}', "no XML"),
        ("/predict", b'{"tasks": [], "label_config": "<View/>"}', "no RectangleLabels"),
        ("/setup", b'{"schema": "<!DOCTYPE a><View/>"}', "document type"),
        ("/train", b"{}", "does not learn while it serves"),
    ],
)
def test_a_request_that_makes_no_sense_gets_400_and_a_message(path, body, message, client):
    answer = client.post(path, data=body)
    assert answer.status_code == 400
    assert message in answer.json["error"]


def test_requests_are_bounded_and_pages_of_other_hosts_get_no_answer(client):
    answer = ask(client, *["birds/a b.png"] * 41)
    assert answer.status_code == 413 and "the limit is 40" in answer.json["error"]
    answer = client.post("/predict", json={}, headers={"Origin": "http://example.org"})
    assert answer.status_code == 403


def test_a_model_is_called_after_its_folder_or_its_run():
    assert model_name("runs/birds") == model_name("runs/birds/model/") == "birds"
    assert model_name("saved_models/my birds") == "my_birds"
