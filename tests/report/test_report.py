"""The report as text: what stands in it, what it must not hold, how large it gets."""

import base64
import dataclasses
import html.parser
import os
import re

import cv2
import numpy as np
import pytest

from gc_net.data.splits import ImageError
from gc_net.evaluation import breakdown
from gc_net.evaluation.agreement import verdict
from gc_net.evaluation.evaluate import evaluate
from gc_net.report import gallery
from gc_net.report.report import MAX_BYTES, render, write_report
from gc_net.stages.run_folder import write_settings
from tests.evaluation.fabricated import fabricated
from tests.evaluation.models import Masked, localizer_of, tiny_model

_VOID = {"meta", "link", "input", "img", "br"}


class Page(html.parser.HTMLParser):
    """Every element with its attributes; fails where one is not closed, and knows the text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.open, self.text = [], [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)

    def all(self, tag, style=None):
        return [
            attributes
            for name, attributes in self.elements
            if name == tag and (style is None or style in attributes.get("class", "").split())
        ]


@pytest.fixture(scope="module")
def evaluation():
    return fabricated(60, unreadable=(("birds/a & b.jpg", "truncated"),))


@pytest.fixture(scope="module")
def page(evaluation):
    return render(evaluation)


@pytest.fixture(scope="module")
def parsed(page):
    return Page(page)


class TestPage:
    def test_is_closed_and_says_every_number(self, evaluation, parsed):
        words = " ".join(parsed.text)
        for key in ("corloc", "loc_err_top1", "cls_err_top1", "mean_iou", "max_box_acc_v2"):
            low, high = evaluation.metrics[f"{key}_ci95"]
            assert f"{evaluation.metrics[key]:.1f}" in words
            assert f"{low:.1f} – {high:.1f}" in words

    def test_asks_for_nothing_from_elsewhere(self, page, parsed):
        for _, attributes in parsed.elements:
            for name in ("src", "href"):
                assert attributes.get(name, "#").startswith(("#", "data:"))
        assert not re.search(r"@import|url\(|https?://", page)
        assert not parsed.all("script")[0]  # no attributes: its text is here

    def test_marks_what_was_tuned_on_the_boxes_and_nothing_else(self, evaluation, parsed):
        tuned = [result for result in evaluation.methods.values() if result.tuned]
        assert len(parsed.all("span", "tuned")) == len(parsed.all("tr", "is-tuned")) == len(tuned)
        assert 0 < len(tuned) < len(evaluation.methods)

    def test_compares_with_the_best_method_that_is_not_tuned(self, evaluation, page):
        fair = evaluation.methods["constant_fixed"]
        sentence = re.search(r'verdict-line">(.*?)</p>', page, re.DOTALL).group(1)
        assert fair.title in sentence
        assert evaluation.methods["constant_best"].title not in sentence

    def test_names_unreadable_images(self, page):
        assert "1 image could not be" in page
        assert "birds/a &amp; b.jpg</code> truncated" in page

    def test_every_table_has_headings_with_a_scope_and_every_image_a_text(self, parsed):
        assert all(heading.get("scope") in ("row", "col") for heading in parsed.all("th"))
        assert all(image.get("alt") for image in parsed.all("img"))
        assert all(
            chart.get("aria-label") or chart.get("aria-hidden") for chart in parsed.all("svg")
        )

    def test_is_the_same_each_time(self, evaluation, page):
        assert render(evaluation) == page

    def test_is_written_whole(self, evaluation, page, tmp_path):
        path = write_report(tmp_path / "new", evaluation)
        with open(path, encoding="utf-8") as file:
            assert file.read() == page
        assert [entry.name for entry in (tmp_path / "new").iterdir()] == ["report.html"]

    def test_escapes_names_of_classes_and_files(self, evaluation):
        attack = '"><script>alert(1)</script>'
        attacked = dataclasses.replace(
            evaluation,
            class_names=tuple(f"{name}{attack}" for name in evaluation.class_names),
            files=tuple(f"{name}{attack}\udcff" for name in evaluation.files),
            unreadable=((attack, attack),),
            model=attack,
            dataset=attack,
            history={attack: {f"{attack}_loss": np.array([1.0, 2.0])}},
        )
        page = render(attacked)
        page.encode("utf-8")
        assert page.count("<script") == 1
        assert attack in "".join(Page(page).text)

    def test_without_history_methods_and_boxes_of_some_images(self):
        evaluation = fabricated(7)
        iou = evaluation.iou.copy()
        iou[2] = np.nan
        bare = dataclasses.replace(
            evaluation,
            history={},
            methods={},
            iou=iou,
            num_truth_boxes=np.array([1, 1, 0, 1, 1, 1, 1], np.int32),
        )
        page = render(bare)
        Page(page)
        assert "No log of the training" in page
        assert "1 of the images have no true box" in page
        assert page.count('<figure class="case"') == 6


class TestWithoutBoxes:
    """The report of images of which nobody has drawn a box."""

    @pytest.fixture(scope="class")
    def unboxed(self, evaluation):
        count = len(evaluation)
        known = ("cls_err", "num_images")
        return dataclasses.replace(
            evaluation,
            iou=np.full(count, np.nan),
            located=np.zeros(count, bool),
            num_truth_boxes=np.zeros(count, np.int32),
            truth_boxes_rel_xyxy=np.zeros((count, 0, 4), np.float32),
            methods={},
            metrics={k: v for k, v in evaluation.metrics.items() if k.startswith(known)},
            model="runs/my birds/model",
        )

    def test_shows_the_doubtful_first_and_then_all_classes_in_turn(self, unboxed):
        chosen = gallery.choose(unboxed)
        assert list(chosen) == ["doubtful", "sample"]
        own = [
            probabilities[classes == label].max(initial=0)
            for probabilities, classes, label in zip(
                unboxed.top_probabilities, unboxed.top_classes, unboxed.labels, strict=True
            )
        ]
        np.testing.assert_array_equal(np.take(own, chosen["doubtful"]), np.sort(own)[:24])
        sample = unboxed.labels[chosen["sample"]]
        assert len(set(sample[: len(set(sample))])) == len(set(sample))
        sure = dataclasses.replace(unboxed, confidence=np.linspace(1, 0, 60))
        assert list(gallery.choose(sure)["doubtful"][:3]) == [59, 58, 57]

    def test_says_what_is_known_and_what_to_do_next(self, unboxed):
        page = render(unboxed)
        parsed = Page(page)
        words = " ".join(parsed.text)
        assert "No image has a true box" in words and "CorLoc" not in words
        assert f"{unboxed.metrics['cls_err_top1']:.1f}" in words
        for tool in ("predict", "evaluate", "diagnose"):
            assert f"gc-net {tool} '--model=runs/my birds/model'" in words
        assert len(parsed.all("figure", "case")) == 60
        # Areas, probabilities, and the curves of training.
        assert len(parsed.all("figure", "chart")) == 6
        assert 'class="truth"' not in page and "nan" not in words

    def test_says_how_far_the_shapes_agree_where_that_is_known(self, unboxed):
        assert "overlap by" not in render(unboxed)
        agreement = {"agreement": 0.697, "constant": 0.658, "num_images": 60}
        agreement["verdict"] = verdict(agreement)
        metrics = {**unboxed.metrics, "agreement": agreement}
        words = " ".join(Page(render(dataclasses.replace(unboxed, metrics=metrics))).text)
        assert "hardly follow the images" in words
        assert "by 0.70" in words and "by 0.66" in words and "Train longer" in words

    @pytest.mark.parametrize("agreed", [0.697, 0.95])
    def test_gives_the_command_that_trains_longer_where_that_is_needed(
        self, agreed, unboxed, tmp_path
    ):
        run = str(tmp_path / "my birds")
        warmup = {"epochs": 3, "steps": None, "min_steps": 300, "max_steps": 750}
        write_settings(run, {"warmup": warmup, "detector": {"epochs": 0}})
        metrics = {**unboxed.metrics, "agreement": {"agreement": agreed, "constant": 0.658}}
        metrics["agreement"]["verdict"] = verdict(metrics["agreement"])
        found = dataclasses.replace(unboxed, metrics=metrics, model=os.path.join(run, "model"))
        words = " ".join(Page(render(found)).text)
        command = (
            f"gc-net train '--reuse={run}' '--work_dir={run}_longer' "
            "--warmup_epochs=6 --warmup_min_steps=600 --warmup_max_steps=1500"
        )
        assert (command in words) == (agreed < 0.7)

    def test_a_confidence_is_not_coloured_by_the_class(self, unboxed):
        cases = Page(render(unboxed)).all("figure", "case")
        assert {case["data-result"] for case in cases} == {"right", "wrong"}
        verdicts = [case["class"].split() for case in Page(render(unboxed)).all("span", "verdict")]
        assert len(verdicts) == 60 and all(names == ["verdict"] for names in verdicts)


def test_report_of_a_model_holds_what_its_evaluation_found():
    """With masks and angles, which the headline then shows, and real masks of the generator."""
    model = tiny_model("rotated_ellipse")
    evaluation = evaluate(localizer_of(model), Masked(bad=(4,)), methods=["constant", "cam"])
    page = Page(render(evaluation))
    words = " ".join(page.text)
    assert f"{evaluation.metrics['mask_iou']:.1f}" in words
    assert f"{evaluation.metrics['angle_error']:.1f}" in words
    for result in evaluation.methods.values():
        assert result.title in words
    assert "test/4.png" in words
    assert len(page.all("figure", "case")) == 8


class TestGallery:
    def test_holds_the_best_median_and_worst_in_order(self, evaluation):
        chosen = gallery.choose(evaluation)
        order = np.sort(evaluation.iou)
        np.testing.assert_array_equal(evaluation.iou[chosen["best"]], order[:-7:-1])
        np.testing.assert_array_equal(evaluation.iou[chosen["worst"]], order[:6])
        median = evaluation.iou[chosen["median"]]
        assert median.min() <= np.median(order) <= median.max()

    @pytest.mark.parametrize("count", [1, 2, 3, 10, 40])
    def test_shows_every_image_of_a_small_split_once(self, evaluation, count):
        few = dataclasses.replace(
            evaluation, iou=evaluation.iou[:count], labels=evaluation.labels[:count]
        )
        rows = np.concatenate(list(gallery.choose(few).values()))
        assert sorted(rows) == list(range(count))

    def test_sample_takes_every_class_before_one_twice(self, evaluation):
        sample = gallery.choose(evaluation)["sample"]
        num_classes = len(np.unique(evaluation.labels[sample]))
        assert len(set(evaluation.labels[sample[:num_classes]])) == num_classes
        assert list(sample) != list(gallery.choose(evaluation, seed=1)["sample"])

    def test_object_and_background_are_cut_along_the_mask(self, evaluation):
        coefficients = np.tile(np.float32([0.25, 0.5, 0.5, 1.0, 0.0]), (60, 1))
        left_half = dataclasses.replace(
            evaluation,
            coefficients=coefficients,
            read_image=lambda row: np.full((112, 112, 3), 250, np.uint8),
            render_masks=lambda rows: np.tile((np.arange(112) < 56) * 1.0, (len(rows), 112, 1)),
        )
        figure = gallery.cases(left_half, 10**6)["best"][0][1]
        uris = re.findall(r'base64,([^"]+)"', figure)
        _, object_image, background = (
            cv2.imdecode(np.frombuffer(base64.b64decode(uri), np.uint8), cv2.IMREAD_COLOR_RGB)
            for uri in uris
        )
        for picture, inside, outside in (
            (object_image, 250, evaluation.mean_color),
            (background, evaluation.mean_color, 250),
        ):
            middle = len(picture) // 2
            assert np.abs(picture[:, : middle - 4] - np.float32(inside)).max() < 8
            assert np.abs(picture[:, middle + 4 :] - np.float32(outside)).max() < 8

    def test_draws_boxes_where_they_are(self, evaluation):
        row = int(gallery.choose(evaluation)["best"][0])
        figure = gallery.cases(evaluation, 10**6)["best"][0][1]
        for style, box in (
            ("box", evaluation.boxes_rel_xyxy[row]),
            ("truth", evaluation.truth_boxes_rel_xyxy[row, 0]),
        ):
            pattern = rf'class="{style}" x="(-?\d+)" y="(-?\d+)" width="(\d+)" height="(\d+)"'
            x, y, width, height = map(int, re.search(pattern, figure).groups())
            np.testing.assert_allclose(
                np.array([x, y, x + width, y + height]) / 1000, box, atol=0.0011
            )

    @pytest.mark.parametrize(
        ("shape", "corners"), [("rectangle", 0), ("rotated_rectangle", 4), ("rotated_ellipse", 48)]
    )
    def test_draws_a_shape_that_is_not_its_own_box(self, shape, corners):
        figure = gallery.cases(fabricated(4, shape), 10**6)["best"][0][1]
        points = re.findall('class="shape" points="([^"]*)"', figure)
        assert len(points[0].split() if points else ()) == corners

    def test_leaves_out_an_image_that_is_gone(self, evaluation):
        def read_image(row):
            if row % 2:
                raise ImageError("no such file")
            return evaluation.read_image(row)

        page = render(dataclasses.replace(evaluation, read_image=read_image))
        assert page.count('<figure class="case"') == 30

    def test_nothing_is_drawn_for_a_box_that_is_not_a_number(self, evaluation):
        broken = dataclasses.replace(
            evaluation,
            boxes_rel_xyxy=np.full((60, 4), np.nan, np.float32),
            coefficients=np.full((60, 5), np.nan, np.float32),
        )
        figure = gallery.cases(broken, 10**6)["best"][0][1]
        assert 'class="truth"' in figure
        assert not re.search('class="(box|shape|rim)"', figure)


def test_stays_below_its_size_for_5000_images_that_compress_badly():
    """Noise, at Inception-V3's 299 pixels, with 1,000 classes of long names."""
    few, copies, size = fabricated(50), 100, 299
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (size, size, 3), np.uint8)
    many = {
        name: np.concatenate([getattr(few, name)] * copies)
        for name in (
            "labels", "sizes", "top_classes", "top_probabilities", "coefficients", "iou", "located",
            "boxes_rel_xyxy", "truth_boxes_rel_xyxy", "num_truth_boxes",
        )
    }  # fmt: skip
    many["labels"] = rng.integers(0, 1000, 5000).astype(np.int32)
    evaluation = dataclasses.replace(
        few,
        **many,
        class_names=tuple(f"class {label}, also known by a longer name" for label in range(1000)),
        files=tuple(f"a/rather/deep/folder/of/images/{row:08d}.jpeg" for row in range(5000)),
        unreadable=tuple((f"images/{row}.jpeg", "truncated") for row in range(2000)),
        image_size=size,
        read_image=lambda row: noise,
        render_masks=lambda rows: np.full((len(rows), size, size), 0.5, np.float32),
    )
    page = render(evaluation)
    assert MAX_BYTES / 2 < len(page.encode()) < MAX_BYTES
    cases = page.count('<figure class="case"')
    assert 18 < cases < 258  # best, median and worst are there; the sample was cut short
    assert "1,500 more" in page


class TestBreakdown:
    def test_groups_add_up_to_the_whole(self, evaluation):
        classes = [group for _, group in breakdown.by_class(evaluation)]
        for groups in (classes, breakdown.by_size(evaluation)):
            counts = [group.count for group in groups]
            assert sum(counts) == 60
            for name, metric in (("right", "corloc"), ("mean_iou", "mean_iou")):
                values = [getattr(group, name) for group in groups]
                expected = evaluation.metrics[metric]
                assert np.average(values, weights=counts) == pytest.approx(expected, abs=1e-3)
            assert all(g.interval[0] <= g.right <= g.interval[1] for g in groups)

    def test_size_is_the_share_of_the_original_image(self, evaluation):
        boxes = evaluation.boxes_in_images(evaluation.truth_boxes_rel_xyxy)[:, 0]
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        np.testing.assert_allclose(
            breakdown.object_shares(evaluation), area / evaluation.sizes.prod(axis=1), rtol=1e-5
        )

    def test_padding_is_no_object(self, evaluation):
        padded = np.concatenate([evaluation.truth_boxes_rel_xyxy] * 2, axis=1)
        padded[:, 1] = (0, 0, 1, 1)
        evaluation = dataclasses.replace(evaluation, truth_boxes_rel_xyxy=padded)
        assert breakdown.object_shares(evaluation).max() < (112 / 128) ** 2

    @pytest.mark.parametrize(("hits", "count"), [(5, 10), (0, 10), (10, 10), (81, 100), (1, 1)])
    def test_interval_ends_where_the_share_would_be_1_96_deviations_off(self, hits, count):
        for limit in breakdown.wilson_interval(hits, count):
            limit /= 100
            off = abs(hits / count - limit)
            assert off == pytest.approx(1.96 * (limit * (1 - limit) / count) ** 0.5, abs=1e-4)
        low, high = breakdown.wilson_interval(hits, count)
        assert 0 <= low < high <= 100
