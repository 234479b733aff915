"""Figures for papers, and the files they are written to."""

import re
import shutil
import subprocess
import sys

import cv2
import keras
import numpy as np
import pytest

import gc_net.figures.drawing
from gc_net import localizer
from gc_net.data import pipeline, transforms
from gc_net.data.splits import DataError, Truth
from gc_net.figures import entropy, grids, plots
from gc_net.figures.figure import FIGURES, Layout, visualize
from gc_net.figures.picture_files import save_picture
from tests.evaluation.models import CLASS_NAMES, SIZE, Blocks, set_coefficients, tiny_model
from tests.models import localizer_of
from tests.processes import run_tool

GAP = gc_net.figures.drawing.GAP
RESIZE_SIZE = 44  # a margin of 6 pixels on every side of what the networks see
LAYOUT = Layout(count=3, columns=4, cell=48)


class Several(Blocks):
    """Every third image has its box twice."""

    def truth(self, name):
        truth = super().truth(name)
        times = np.where(np.arange(self._counts[name]) % 3 == 0, 2, 1)
        starts = np.concatenate([[0], np.cumsum(times)])
        return Truth(boxes=np.repeat(truth.boxes, times, axis=0), starts=starts)


def saved_rectangle(coefficients, **options):
    """Return a model that places this rectangle in whatever it sees."""
    model = tiny_model("rectangle")
    set_coefficients(model, coefficients)
    return localizer_of(model, CLASS_NAMES, **options)


@pytest.fixture(scope="module")
def saved():
    return saved_rectangle([0.5, 0.5, 0.5, 0.25])


@pytest.fixture(scope="module")
def model_dir(saved, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "model"
    saved.save(folder)
    return folder


@pytest.fixture(scope="module", params=["rectangle", "rotated_ellipse"])
def looking_dir(request, tmp_path_factory):
    """A model with a margin, whose shapes depend on what it sees."""
    keras.utils.set_random_seed(0)
    model = tiny_model(request.param)
    outputs = model.detector.head.get_layer("outputs")
    outputs.kernel.assign(np.random.default_rng(0).normal(0, 4, outputs.kernel.shape))
    outputs.bias.assign(np.zeros(outputs.bias.shape))
    folder = tmp_path_factory.mktemp(request.param) / "model"
    localizer_of(model, CLASS_NAMES, resize_size=RESIZE_SIZE).save(folder)
    return folder


def span(found):
    """Return the box xyxy of what is true in a picture [H, W]."""
    rows, columns = np.flatnonzero(found.any(axis=1)), np.flatnonzero(found.any(axis=0))
    return np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])


def cell_of(image, row, column, cell=48):
    top, left = GAP + row * (cell + GAP), GAP + column * (cell + GAP)
    return image[top : top + cell, left : left + cell]


def test_predictions_show_objects_above_boxes(saved):
    data = Blocks()
    image = grids.predictions(
        {"a": saved, "b": saved}, data.split("test"), data.truth("test"), LAYOUT
    )
    assert image.shape == (4 * (48 + GAP) + GAP, 3 * (48 + GAP) + GAP, 3)  # two rows a model
    objects, drawn = cell_of(image, 0, 0), cell_of(image, 1, 0)
    outside = objects[:6].reshape(-1, 3).astype(int)
    assert np.ptp(outside, axis=0).max() <= 2, "masked pixels have one colour"
    blue = (drawn == gc_net.figures.drawing.BLUE).all(axis=-1)
    # 0.25 to 0.75 across and 0.375 to 0.625 down, of 48 pixels.
    np.testing.assert_allclose(span(blue), [12, 18, 36, 30], atol=1)
    assert (drawn == gc_net.figures.drawing.RED).all(axis=-1).any()


def test_shapes_are_drawn_where_prediction_reports_them(looking_dir, tmp_path):
    cell = 448
    path = tmp_path / "figure.png"
    image = visualize(path, "predictions", [looking_dir], Blocks(), count=3, cell=cell)
    chosen = grids.scenes(Blocks().split("test"), None, count=3)
    found = localizer.load(looking_dir).predict([scene.image for scene in chosen])
    for column, prediction in enumerate(found):
        drawn = cell_of(image, 1, column, cell)
        scale = cell / np.array(prediction.size[::-1])
        box = np.clip(np.array(prediction.box_xyxy) * np.tile(scale, 2), 0, cell)
        blue = (drawn == gc_net.figures.drawing.BLUE).all(axis=-1)
        np.testing.assert_allclose(span(blue), box, atol=1)
        if prediction.ellipse is not None:
            outline = np.rint(prediction.polygon() * scale - 0.5).astype(int)
            seen = outline[((outline > 8) & (outline < cell - 8)).all(axis=1)]
            assert len(seen) > 10
            line = (drawn < 10).all(axis=-1) | blue  # the box is drawn over the shape
            assert line[seen[:, 1], seen[:, 0]].mean() > 0.9
    boxes = np.array([prediction.box_xyxy for prediction in found])
    assert np.ptp(boxes, axis=0).max() > 2, "the shapes depend on the images"


def test_masked_objects_are_what_the_networks_see_in_the_shape():
    saved = saved_rectangle([0.5, 0.5, 0.75, 0.5], resize_size=RESIZE_SIZE)
    saved.generator.sharpness.assign(1e3)  # hard masks: pixels are in or out
    (scene,) = grids.scenes(Blocks().split("test"), None, 1)
    _, (seen,) = grids.pictures(saved, [scene], SIZE)
    margin = (RESIZE_SIZE - SIZE) // 2
    window = transforms.squash(scene.image, RESIZE_SIZE)[margin:-margin, margin:-margin]
    expected = np.full((SIZE, SIZE, 3), 127)  # the mean of this backbone
    expected[8:24, 4:28] = window[8:24, 4:28]
    np.testing.assert_allclose(seen.astype(int), expected, atol=1)


def test_predictions_fill_a_row_that_is_not_full_with_paper(saved):
    data = Blocks()
    layout = LAYOUT._replace(columns=2, captions=True)
    image = grids.predictions({"a": saved}, data.split("test"), None, layout)
    height = 48 + GAP + gc_net.figures.drawing.TEXT_HEIGHT
    assert image.shape == (4 * height + GAP, 2 * (48 + GAP) + GAP, 3)
    assert (image[2 * height + GAP :, 48 + 2 * GAP :] == 255).all()


def test_ablation_puts_models_side_by_side(saved):
    other = saved_rectangle([0.5, 0.5, 0.9, 0.9])
    data = Blocks()
    layout = LAYOUT._replace(count=2, columns=2)
    image = grids.ablation(
        {"small": saved, "large": other}, data.split("test"), data.truth("test"), layout
    )
    block = (image.shape[0] - GAP) // 2
    assert image.shape[1] == 2 * (48 + GAP) + GAP + 2 * GAP
    first = image[GAP:block, GAP:]
    blue = [
        (cell_of(first, 0, column) == gc_net.figures.drawing.BLUE).all(axis=-1) for column in (0, 1)
    ]
    widths = [np.ptp(np.flatnonzero(found.any(axis=0))) for found in blue]
    np.testing.assert_allclose(widths, [0.5 * 48, 0.9 * 48], atol=2)


def test_objects_show_single_ones_above_several(saved):
    data = Several()
    image = grids.objects({"a": saved}, data.split("test"), data.truth("test"), LAYOUT)
    assert image.shape == (2 * (48 + GAP) + GAP, 4 * (48 + GAP) + GAP, 3)
    single = grids.objects({"a": saved}, data.split("test"), Blocks().truth("test"), LAYOUT)
    assert single.shape[0] == 48 + 2 * GAP


def test_scenes_leave_out_what_cannot_be_read_and_take_classes_in_turn(caplog):
    data = Blocks(bad=(1, 4))
    chosen = grids.scenes(data.split("test"), data.truth("test"), 6)
    assert len(chosen) == 6
    assert "truncated" in caplog.text
    whole = grids.scenes(Blocks().split("test"), None, 3)
    assert {scene.class_name for scene in whole} == set(CLASS_NAMES)
    with pytest.raises(DataError, match="no image"):
        grids.scenes(Blocks(num_test=2, bad=(0, 1)).split("test"), None, 3)


class Known:
    """A classifier whose logits are the mean of the first channel, and zeros."""

    num_classes = 4

    def normalize(self, images):
        return np.asarray(images, np.float32) / 100

    def from_normalized(self, images, training):
        logits = np.zeros((len(images), 4))
        logits[:, 0] = images[..., 0].mean(axis=(1, 2))
        return logits


def test_entropy_is_that_of_the_masked_images():
    images = np.full((2, 20, 20, 3), 200, np.uint8)
    boxes = np.array([[0.0, 0.0, 1.0, 1.0], [0.25, 0.25, 0.75, 0.75]])
    scales = (0.0, 1.0, 2.0)
    found = entropy.entropies(Known(), images, boxes, scales)

    def expected(share):
        """Of the four classes where this share of the image, all twos, is left."""
        p = np.exp([2 * share, 0, 0, 0]) / np.exp([2 * share, 0, 0, 0]).sum()
        return -(p * np.log(p)).sum()

    covered = np.array([[0.0, 1.0, 1.0], [0.0, 0.25, 1.0]])
    np.testing.assert_allclose(found[0], np.vectorize(expected)(covered), rtol=1e-6)
    np.testing.assert_allclose(found[1], np.vectorize(expected)(1 - covered), rtol=1e-6)


def test_entropy_is_of_the_images_and_boxes_of_evaluation(monkeypatch):
    saved = saved_rectangle([0.5, 0.5, 0.5, 0.5], resize_size=RESIZE_SIZE)
    data, asked = Blocks(), []
    entropies = entropy.entropies

    def watched(classifier, images, boxes_rel_xyxy):
        asked.append((images, boxes_rel_xyxy))
        return entropies(classifier, images, boxes_rel_xyxy)

    monkeypatch.setattr(entropy, "entropies", watched)
    split, truth = data.split("test"), data.truth("test")
    entropy.entropy_figure({"a": saved}, split, truth, Layout(count=9, cell=40))
    ((images, boxes),) = asked
    (batch,) = pipeline.evaluation_batches(
        split, truth, image_size=SIZE, resize_size=RESIZE_SIZE, batch_size=9
    )

    def in_order(images, boxes):
        """Return the boxes in an order that depends on the images alone."""
        order = sorted(range(9), key=lambda row: images[row].tobytes())
        return images[order], boxes[order]

    found = in_order(images, boxes)
    expected = in_order(batch["image"].numpy(), batch["boxes_rel_xyxy"][:, 0].numpy())
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], atol=1e-5)


def test_entropy_of_certainty_is_zero_and_not_nan():
    np.testing.assert_allclose(entropy._entropy(np.array([[1e4, 0.0], [3.0, 3.0]])), [0, np.log(2)])


@pytest.mark.parametrize("level", [0.25, 0.5, 0.75])
def test_plot_has_the_curves_where_the_values_are(level):
    figure = plots.new_figure(600, 420)
    axes = plots.add_axes(figure, 60, 60, 500, 300)
    series = {"a": np.full(5, level), "b": np.zeros(5), "c": np.ones(5)}
    plots.draw_curves(axes, np.linspace(0, 1, 5), series)
    plot = plots.pixels(figure)
    assert plot.shape == (420, 600, 3)
    rows = []
    for color in plots.COLORS[:3]:
        drawn = (np.abs(plot[60:, 100:550] - np.float32(color)) < 40).all(axis=-1)
        rows.append(np.flatnonzero(drawn.any(axis=1)).mean())
    middle, bottom, top = rows
    assert bottom - top > 200
    assert (bottom - middle) / (bottom - top) == pytest.approx(level, abs=0.01)


def test_plot_in_a_pdf_stays_letters(tmp_path):
    figure = plots.new_figure(300, 200)
    axes = plots.add_axes(figure, 40, 40, 250, 120)
    plots.draw_curves(axes, [0, 1], {"a name in $": [0, 1]})
    save_picture(tmp_path / "figure.pdf", figure)
    poppler(["pdftotext", "figure.pdf", "out.txt"], tmp_path)
    assert "a name in $" in (tmp_path / "out.txt").read_text()


class TestInlineSVG:
    """Charts that a page's style sheet colours."""

    def chart(self, draw, **options):
        figure = plots.new_figure(400, 200, paper=False)
        draw(plots.add_axes(figure, 50, 40, 300, 150))
        return plots.inline_svg(figure, 'a <chart> of "x"', **options)

    def test_curve_passes_through_its_points(self):
        svg = self.chart(lambda axes: plots.draw_curves(axes, [0, 1, 2], {"a": [0.0, 1.0, 0.5]}))
        path = re.search(r'class="curve series-0" d="([^"]+)"', svg).group(1)
        points = np.array([part.split() for part in re.split("[ML]", path)[1:]], float)
        (x0, y0), (x1, y1), (x2, y2) = points
        assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
        assert y1 < y2 < y0  # y is down
        assert y2 == pytest.approx((y0 + y1) / 2, abs=0.2)

    def test_gap_where_a_value_is_missing_and_a_dot_where_one_stands_alone(self):
        values = {"a": [1.0, 2.0, np.nan, 3.0, np.inf]}
        svg = self.chart(lambda axes: plots.draw_curves(axes, range(5), values))
        path = re.search(r'class="curve series-0" d="([^"]+)"', svg).group(1)
        assert path.count("L") == 1
        assert svg.count('class="dot series-0"') == 1
        assert "nan" not in svg and "inf" not in svg

    def test_bars_are_as_high_as_their_values_and_have_hints(self):
        def draw(axes):
            intervals = [(8, 12), (15, 20)]
            plots.draw_bars(
                axes, [10, 20], styles=["good", "bad"], labels="ab", intervals=intervals, top=20
            )

        svg = self.chart(draw, hints={"bar-1": "b & more"})
        heights = []
        for style in ("bar-0 good", "bar-1 bad"):
            path = re.search(f'class="{style}" d="([^"]+)"', svg).group(1)
            y = [float(part.split()[1]) for part in re.split("[ML]", path.rstrip("z"))[1:]]
            heights.append(max(y) - min(y))
        assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)
        assert heights[1] == pytest.approx(150, abs=0.2)
        assert svg.count('class="whisker"') == 2
        assert svg.count("<title>") == 1 and "<title>b &amp; more</title>" in svg

    def test_holds_no_colour_no_name_twice_and_nothing_from_elsewhere(self):
        svg = self.chart(lambda axes: plots.draw_curves(axes, [0, 1], {"a": [0, 1]}, legend=False))
        assert 'aria-label="a &lt;chart&gt; of &quot;x&quot;"' in svg
        assert not re.search(r"#[0-9a-f]{3}|style=| id=|http|url\(|<!", svg)
        assert len(svg) < 2000

    def test_is_the_same_each_time(self):
        def draw(axes):
            plots.draw_curves(axes, [0, 1], {"a": [0, 1]})

        assert self.chart(draw) == self.chart(draw)


def poppler(command, folder):
    """Run one of Poppler's programs, which know PDF better than we do."""
    if not shutil.which(command[0]):
        pytest.skip(f"needs {command[0]} (Debian: poppler-utils)")
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert result.stderr == ""


@pytest.mark.parametrize("shape", [(30, 50), (2, 3), (67, 33)])
def test_pdf_holds_the_image_without_loss(shape, tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    save_picture(tmp_path / "figure.pdf", image)
    poppler(["pdfimages", "-png", "figure.pdf", "out"], tmp_path)
    seen = cv2.imread(str(tmp_path / "out-000.png"), cv2.IMREAD_COLOR_RGB)
    np.testing.assert_array_equal(seen[::-1], image)  # stored from below, as PDF counts


@pytest.mark.parametrize("shape", [(5, 9), (1, 1)])
def test_pdf_shows_the_image_over_the_whole_page(shape, tmp_path):
    colors = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    save_picture(tmp_path / "figure.pdf", np.kron(colors, np.ones((12, 12, 1), np.uint8)), 72)
    poppler(["pdftoppm", "-png", "-r", "72", "-singlefile", "figure.pdf", "out"], tmp_path)
    seen = cv2.imread(str(tmp_path / "out.png"), cv2.IMREAD_COLOR_RGB)
    assert seen.shape == (12 * shape[0], 12 * shape[1], 3)
    np.testing.assert_array_equal(seen[6::12, 6::12], colors)


def test_pdf_is_as_large_as_its_resolution_says(tmp_path):
    save_picture(tmp_path / "figure.pdf", np.zeros((300, 600, 3), np.uint8), dots_per_inch=150)
    pdf = (tmp_path / "figure.pdf").read_bytes()
    assert b"/MediaBox [ 0 0 288 144 ]" in pdf  # 4 by 2 inches


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_can_be_written(figure, model_dir, tmp_path):
    path = tmp_path / "figure.png"
    picture = visualize(path, figure, [model_dir], lambda info: Several(), count=2, cell=40)
    image = picture if isinstance(picture, np.ndarray) else plots.pixels(picture, 144)
    np.testing.assert_array_equal(cv2.imread(str(path), cv2.IMREAD_COLOR_RGB), image)
    assert image.std() > 5


def test_tool_writes_a_figure(model_dir, tmp_path):
    flags = ["--count=2", "--dataset=creatures", "--dataset_options=num_test=4"]
    path = tmp_path / "figure.pdf"
    run_tool("visualize", f"--model={model_dir}", *flags, f"--output={path}").check_returncode()
    assert path.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("figure", "flag"),
    [("entropy", "--columns=4"), ("entropy", "--captions"), ("ablation", "--captions")],
)
def test_tool_refuses_what_a_figure_has_no_use_for(figure, flag):
    refused = run_tool("visualize", "--model=nowhere", f"--figure={figure}", flag)
    assert refused.returncode == 1
    name = flag.partition("=")[0]
    assert f"{name} does nothing for --figure={figure}." in refused.stdout + refused.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"figure": "pie"}, "Unknown figure 'pie'"),
        ({"path": "figure.tar"}, "Cannot write an image"),
        ({"model_dirs": ["nowhere"]}, "No model in 'nowhere'"),
        ({"model_dirs": 2}, "Two models are called"),
        ({"figure": "objects", "model_dirs": "ab"}, "one model"),
        ({"figure": "entropy", "model_dirs": "ab"}, "one model"),
        ({"figure": "objects", "dataset": Blocks(boxes=False)}, "true boxes"),
        ({"figure": "entropy", "dataset": Blocks(boxes=False)}, "true boxes"),
    ],
)
def test_bad_requests_are_explained(change, message, model_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    request = {
        "path": "figure.png",
        "figure": "predictions",
        "model_dirs": [model_dir],
        "dataset": Blocks(),
        **change,
    }
    if request["model_dirs"] == 2:
        request["model_dirs"] = [model_dir] * 2
    elif request["model_dirs"] == "ab":
        request["model_dirs"] = [f"a={model_dir}", f"b={model_dir}"]
    with pytest.raises(ValueError, match=message):
        visualize(**request)
    assert not list(tmp_path.iterdir())


def test_help_needs_no_tensorflow():
    code = (
        "import sys, tools.visualize; print({'tensorflow', 'cv2', 'matplotlib'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "set()"
