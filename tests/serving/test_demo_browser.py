"""The demo page in a real browser, as a user works with it."""

import base64
import urllib.parse

import numpy as np
import pytest
import tensorflow as tf

from gc_net.data.decode import decode_image
from gc_net.export import preprocessing
from gc_net.serving.demo_server import make_app
from tests.browser import TAB
from tests.data import encoded
from tests.models import localizer_of
from tests.prediction.models import always_say, encode, noise, tiny_model
from tests.serving.servers import running

# No slash, so that it can be the name of a file.
ATTACK = "<script>document.title='run'<script><img src=x onerror=document.title='run'>"
CLASS_NAMES = ("ant", ATTACK, "Küken 雛")
GREY = np.full((100, 300, 3), 200, np.uint8)

BLUE_BOX = """
const [canvas] = document.querySelectorAll(arguments[0] + " canvas");
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
"""
MASKED = """
const [, canvas] = document.querySelectorAll(arguments[0] + " canvas");
return arguments[1].map(place => canvas.getContext("2d").getImageData(...place, 1, 1).data[0]);
"""
TEXTS = "return Array.from(document.querySelectorAll(arguments[0]), item => item.innerText)"


@pytest.fixture(scope="module")
def address(chromium, tmp_path_factory):
    """A server of a model that finds the same box and class in every image."""
    del chromium  # nothing is built where it would be skipped
    model = tiny_model("rotated_rectangle")
    always_say(model, [0.6, 0.5, 0.4, 0.6, 0.0], [0.0, 5.0, 0.0])
    folder = tmp_path_factory.mktemp("model")
    localizer_of(model, CLASS_NAMES).save(folder)
    with running(make_app(folder, "birds")) as address:
        yield address


@pytest.fixture
def browser(chromium, address):
    """The page, freshly opened on a phone's screen, which nothing it shows may be wider than."""
    chromium.resize(390, 800)
    chromium.messages()  # of the test before
    chromium.open(address)
    yield chromium
    assert chromium.script("return document.documentElement.scrollWidth <= innerWidth")


def choose(browser, folder, files):
    """Write files, given as bytes by name, and choose them; return once all are dealt with."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    browser.choose("#files", *(folder / name for name in files))
    wait_for(browser, len(files))


def wait_for(browser, number):
    done = "1 image done." if number == 1 else f"{number} images done."
    browser.wait("return document.getElementById('status').textContent === arguments[0]", done)


def assert_nothing_ran(browser):
    assert browser.script("return document.title").endswith(" – gc_net")
    assert browser.script("return document.querySelectorAll('img, script').length") == 1


def test_the_result_is_drawn_at_the_right_place(browser, tmp_path):
    # A browser's canvas turns WebP, which the server does not read, into PNG.
    choose(browser, tmp_path, {"a b.png": encode(GREY), "ä.webp": encode(GREY, ".webp")})
    assert browser.script(TEXTS, "article h2") == ["ä.webp", "a b.png"]  # the last comes first
    assert browser.script(TEXTS, "[role=alert]") == []
    assert browser.messages() == []  # before pixels are read, of which Chromium complains
    for number, text in enumerate(browser.script(TEXTS, "article"), start=1):
        # The box goes from 0.4 to 0.8 of 300, and from 0.2 to 0.8 of 100.
        assert "120, 20, 240, 80 of 300 × 100 pixels" in text
        article = f"article:nth-child({number})"
        assert browser.script(BLUE_BOX, article) == pytest.approx([120, 20, 240, 80], abs=2)
        places = [[10, 50], [115, 50], [125, 50], [180, 25], [180, 15], [235, 75], [245, 85]]
        masked = [127, 127, 200, 200, 127, 200, 127]
        assert browser.script(MASKED, article, places) == pytest.approx(masked, abs=3)


def test_a_browser_decodes_what_the_server_would_see_otherwise(browser, tmp_path):
    browser.script(
        "window.sent = []; const ask = window.fetch;"
        "window.fetch = (url, options) => {"
        "  sent.push(JSON.parse(options.body).inputs.image_bytes[0].b64);"
        "  return ask(url, options);"
        "};"
    )
    files = {
        "padded.bmp": encoded.PADDED_BMP,
        "clear.gif": encoded.CLEAR_GIF,
        "turned.png": encoded.png_with_exif(GREY, 6),
    }
    choose(browser, tmp_path, files)
    sent = [base64.b64decode(text) for text in browser.script("return sent")]
    for name, data in zip(files, sent, strict=True):
        found = preprocessing.decode(tf.constant(data)).numpy()
        np.testing.assert_allclose(found, decode_image(files[name]), atol=1, err_msg=name)
    # The server turns the PNG, and the browser draws it turned.
    assert "40, 60, 80, 240 of 100 × 300 pixels" in browser.script(TEXTS, "article")[0]
    assert browser.script(BLUE_BOX, "article") == pytest.approx([40, 60, 80, 240], abs=2)


def test_a_large_image_is_drawn_smaller_with_the_box_in_its_own_pixels(browser, tmp_path):
    choose(browser, tmp_path, {"large.png": encode(np.tile(GREY, (10, 5, 1)))})
    assert "600, 200, 1200, 800 of 1500 × 1000 pixels" in browser.script(TEXTS, "article")[0]
    # The longest side is drawn with 800 pixels.
    scaled = np.array([600, 200, 1200, 800]) * 800 / 1500
    assert browser.script(BLUE_BOX, "article") == pytest.approx(scaled, abs=5)


def test_what_is_no_image_is_said_beside_its_name_and_stops_no_other(browser, tmp_path):
    cut = encode(noise(80, 80))[:300]
    choose(browser, tmp_path, {"no.png": b"hello", "cut.png": cut, "good.png": encode(GREY)})
    good, broken, no_image = browser.script(TEXTS, "article")
    assert "120, 20, 240, 80 of 300 × 100 pixels" in good
    assert "no.png is not an image that this browser can read." in no_image
    assert "cut.png" in broken
    assert len(browser.script(TEXTS, "[role=alert]")) == 2
    assert len(browser.script(TEXTS, "canvas")) == 2


def test_a_file_or_class_whose_name_is_a_script_is_shown_and_not_run(browser, tmp_path):
    choose(browser, tmp_path, {f"{ATTACK}.png": encode(GREY), ATTACK: b"hello"})
    refused, shown = browser.script(TEXTS, "article")
    assert browser.script(TEXTS, "article h2") == [ATTACK, f"{ATTACK}.png"]
    assert f"{ATTACK} is not an image" in refused
    assert f"{ATTACK} 98.7 %" in shown  # e⁵ / (e⁵ + 2)
    assert_nothing_ran(browser)
    assert browser.messages() == []


def test_a_model_whose_name_is_a_script_is_shown_and_not_run(browser, address, tmp_path):
    browser.open(f"{address}/?model={urllib.parse.quote(ATTACK)}")
    assert browser.script(TEXTS, "h1") == [f"Try the model {ATTACK}"]
    choose(browser, tmp_path, {"a.png": encode(GREY)})
    (message,) = browser.script(TEXTS, "[role=alert]")
    assert "There is nothing at" in message and ATTACK in message
    assert_nothing_ran(browser)


def test_a_server_that_is_away_is_said(browser, address, tmp_path):
    browser.open(f"{address}/?server=http://127.0.0.1:9")
    choose(browser, tmp_path, {"a.png": encode(GREY)})
    assert browser.script(TEXTS, "[role=alert]") == ["The server does not answer."]


def test_the_keyboard_reaches_the_choice_of_files_first(browser):
    browser.press(TAB)
    assert browser.script("return document.activeElement.id") == "files"


def test_a_dropped_image_is_taken_as_a_chosen_one(browser):
    browser.script(
        """
        const data = new DataTransfer(), bytes = new Uint8Array(arguments[0]);
        data.items.add(new File([bytes], "dropped.png", {type: "image/png"}));
        const event = new DragEvent("drop", {dataTransfer: data, cancelable: true});
        document.getElementById("drop").dispatchEvent(event);
        """,
        list(encode(GREY)),
    )
    wait_for(browser, 1)
    (text,) = browser.script(TEXTS, "article")
    assert text.startswith("dropped.png") and "120, 20, 240, 80 of 300 × 100 pixels" in text
