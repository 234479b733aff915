"""The report in a real browser, as a user works with it."""

import dataclasses

import pytest

from gc_net.report.report import write_report
from tests.browser import DOWN, ENTER, SPACE, TAB
from tests.evaluation.fabricated import fabricated

ATTACK = "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">"

VISIBLE = """
return Array.from(document.querySelectorAll(".case")).filter(item => item.offsetParent)
  .map(item => [item.dataset.class, item.dataset.result])
"""


@pytest.fixture(scope="module")
def evaluation():
    evaluation = fabricated(40)
    names = list(evaluation.class_names)
    names[3] = ATTACK
    return dataclasses.replace(
        evaluation, class_names=tuple(names), unreadable=((ATTACK, "truncated"),)
    )


@pytest.fixture(scope="module")
def report(evaluation, tmp_path_factory):
    return write_report(tmp_path_factory.mktemp("a folder, called 50 #1"), evaluation)


@pytest.fixture
def browser(chromium, report):
    """The report, freshly opened at desktop size; whatever the console said is an error."""
    chromium.resize(1280, 900)
    chromium.prefer("light")
    chromium.open(report)
    chromium.script("localStorage.clear(); delete document.documentElement.dataset.theme")
    yield chromium
    assert chromium.messages() == []


def test_all_images_load(browser):
    images = browser.script(
        "return Promise.all(Array.from(document.images)"
        ".map(image => image.decode().then(() => image.naturalWidth)))"
    )
    assert len(images) == 3 * 40
    assert min(images) > 50


def test_filters_by_class_and_by_result(browser, evaluation):
    def expected(label=None, located=None):
        return sorted(
            [str(own), "right" if right else "wrong"]
            for own, right in zip(evaluation.labels, evaluation.located, strict=True)
            if label in (None, own) and located in (None, right)
        )

    assert sorted(browser.script(VISIBLE)) == expected()
    browser.click("input[name=result][value=wrong]")
    assert sorted(browser.script(VISIBLE)) == expected(located=False)
    browser.click("#class option[value='5']")
    assert sorted(browser.script(VISIBLE)) == expected(label=5, located=False)
    browser.click("input[name=result][value=right]")
    shown = browser.script(VISIBLE)
    assert sorted(shown) == expected(label=5, located=True)
    count = browser.script("return document.getElementById('count').textContent")
    assert count == f"{len(shown)} of 40"


def test_says_so_where_nothing_fits(browser, evaluation):
    browser.script("document.querySelectorAll('.case').forEach(c => c.dataset.result = 'right')")
    browser.click("input[name=result][value=wrong]")
    assert browser.script(VISIBLE) == []
    assert browser.script("return document.getElementById('nothing').offsetHeight") > 0
    assert browser.script("return document.querySelectorAll('.group:not([hidden])').length") == 0


def test_layers_can_be_hidden(browser):
    displayed = "return getComputedStyle(document.querySelector('.scene .truth')).display"
    assert browser.script(displayed) != "none"
    browser.click("input[name=layer][value=truth]")
    assert browser.script(displayed) == "none"


def test_drawing_lies_on_its_image(browser):
    image, drawing = (
        browser.script(
            f"const r = document.querySelector('.scene {tag}').getBoundingClientRect();"
            "return [r.x, r.y, r.width, r.height]"
        )
        for tag in ("img", "svg")
    )
    assert drawing == pytest.approx(image, abs=1)
    assert image[2] == pytest.approx(image[3], abs=1)  # square, as the network sees it


def test_a_name_that_is_a_script_is_shown_and_not_run(browser):
    assert browser.script("return document.title").startswith("GC-Net on")
    names = browser.script(
        "return Array.from(document.querySelectorAll('.case[data-class=\"3\"] .name'))"
        ".map(name => name.textContent)"
    )
    assert names and set(names) == {ATTACK}
    assert browser.script("return document.querySelectorAll('img[src=x]').length") == 0


def test_a_script_that_got_in_would_not_run(chromium, report, tmp_path):
    with open(report, encoding="utf-8") as file:
        page = file.read()
    broken = tmp_path / "report.html"
    broken.write_text(page.replace("</h1>", f"</h1>{ATTACK}", 1), encoding="utf-8")
    chromium.open(broken)
    assert chromium.script("return document.title").startswith("GC-Net on")
    assert any("Content Security Policy" in message for message in chromium.messages())


def test_classes_are_sorted_and_lead_to_their_examples(browser):
    column = (
        "return Array.from(document.querySelectorAll('#classes tbody tr'))"
        ".map(row => parseFloat(row.cells[2].textContent))"
    )
    values = browser.script(column)
    assert values == sorted(values)
    browser.click("#classes th:nth-child(3) button")
    assert browser.script(column) == sorted(values, reverse=True)
    sorting = "return document.querySelector('#classes th:nth-child(3)').getAttribute('aria-sort')"
    assert browser.script(sorting) == "descending"
    browser.click("#classes button[data-class='5']")
    assert {label for label, _ in browser.script(VISIBLE)} == {"5"}


def test_works_with_the_keyboard_alone(browser):
    browser.script("document.getElementById('class').focus()")
    browser.press(TAB, DOWN, DOWN)  # to the radio buttons, and to the last of them
    assert {result for _, result in browser.script(VISIBLE)} == {"wrong"}
    browser.press(TAB, SPACE)
    assert browser.script("return document.getElementById('gallery').className") == "hide-box"
    browser.script("document.getElementById('theme').focus()")
    browser.press(ENTER)
    assert browser.script("return document.documentElement.dataset.theme") == "dark"


def brightness(browser, name):
    """Return the relative luminance of a colour of the page (WCAG 2)."""
    red, green, blue = browser.script(
        "const c = document.createElement('canvas').getContext('2d');"
        "const e = document.body.appendChild(document.createElement('i'));"
        "e.style.color = 'var(--' + arguments[0] + ')';"
        "c.fillStyle = getComputedStyle(e).color; e.remove();"
        "return c.fillStyle.match(/[0-9a-f]{2}/gi).map(h => parseInt(h, 16) / 255)",
        name,
    )
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (red, green, blue)
    ]
    return sum(part * share for part, share in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_follows_the_system_with_enough_contrast(browser, scheme):
    browser.prefer(scheme)
    page = brightness(browser, "page")
    assert page > 0.8 if scheme == "light" else page < 0.05
    for name in ("ink", "muted", "accent", "right", "wrong", "s1", "s2", "s3", "s4", "s5"):
        for ground in ("page", "card"):
            low, high = sorted([brightness(browser, name), brightness(browser, ground)])
            assert (high + 0.05) / (low + 0.05) >= 4.5, name


def test_chosen_theme_stays(browser, report):
    browser.click("#theme")
    assert brightness(browser, "page") < 0.05
    browser.open(report)
    assert brightness(browser, "page") < 0.05
    browser.click("#theme")
    assert brightness(browser, "page") > 0.8


@pytest.mark.parametrize("width", [320, 390, 768])
def test_fits_the_screen(browser, width):
    browser.resize(width, 800)
    assert browser.script("return document.documentElement.scrollWidth") <= width
    sizes = browser.script(
        "return Array.from(document.querySelectorAll('.chart text'))"
        ".map(text => text.getBoundingClientRect().height)"
    )
    assert min(size for size in sizes if size) >= 9
