"""Figures for papers, and the files they are written to."""

import shutil
import subprocess
import sys

import cv2
import numpy as np
import pytest

import gc_net.drawing
from gc_net.datasets.base import DataError, Truth
from gc_net.evaluation import entropy, grids, plots
from gc_net.evaluation.visualize import FIGURES, visualize
from gc_net.picture_files import encode_pdf, save_picture
from gc_net.saving import save_model
from tests.evaluation.models import CLASS_NAMES, Blocks, set_coefficients, tiny_model

GAP = gc_net.drawing.GAP
OPTIONS = {"count": 3, "columns": 4, "cell": 48, "seed": 0, "captions": False}


class Several(Blocks):
    """Every third image has its box twice."""

    def truth(self, name):
        truth = super().truth(name)
        times = np.where(np.arange(self._counts[name]) % 3 == 0, 2, 1)
        starts = np.concatenate([[0], np.cumsum(times)])
        return Truth(boxes=np.repeat(truth.boxes, times, axis=0), starts=starts)


@pytest.fixture(scope="module")
def model():
    model = tiny_model("rectangle")
    set_coefficients(model, [0.5, 0.5, 0.5, 0.25])
    return model


@pytest.fixture(scope="module")
def model_dir(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "model"
    save_model(folder, model, CLASS_NAMES)
    return folder


def cell_of(image, row, column, cell=48):
    top, left = GAP + row * (cell + GAP), GAP + column * (cell + GAP)
    return image[top : top + cell, left : left + cell]


def test_predictions_show_objects_above_boxes(model):
    data = Blocks()
    image = grids.predictions(
        {"a": model, "b": model}, data.split("test"), data.truth("test"), **OPTIONS
    )
    assert image.shape == (4 * (48 + GAP) + GAP, 3 * (48 + GAP) + GAP, 3)  # two rows a model
    objects, drawn = cell_of(image, 0, 0), cell_of(image, 1, 0)
    outside = objects[:6].reshape(-1, 3).astype(int)
    assert np.ptp(outside, axis=0).max() <= 2, "masked pixels have one colour"
    blue = (drawn == gc_net.drawing.BLUE).all(axis=-1)
    rows, columns = np.flatnonzero(blue.any(axis=1)), np.flatnonzero(blue.any(axis=0))
    # 0.25 to 0.75 across and 0.375 to 0.625 down, of 48 pixels.
    np.testing.assert_allclose([columns[0], columns[-1] + 1], [12, 36], atol=1)
    np.testing.assert_allclose([rows[0], rows[-1] + 1], [18, 30], atol=1)
    assert (drawn == gc_net.drawing.RED).all(axis=-1).any()


def test_predictions_fill_a_row_that_is_not_full_with_paper(model):
    data = Blocks()
    options = {**OPTIONS, "columns": 2, "captions": True}
    image = grids.predictions({"a": model}, data.split("test"), None, **options)
    height = 48 + GAP + gc_net.drawing.TEXT_HEIGHT
    assert image.shape == (4 * height + GAP, 2 * (48 + GAP) + GAP, 3)
    assert (image[2 * height + GAP :, 48 + 2 * GAP :] == 255).all()


def test_ablation_puts_models_side_by_side(model):
    other = tiny_model("rectangle")
    set_coefficients(other, [0.5, 0.5, 0.9, 0.9])
    data = Blocks()
    options = {**OPTIONS, "count": 2, "columns": 2}
    image = grids.ablation(
        {"small": model, "large": other}, data.split("test"), data.truth("test"), **options
    )
    block = (image.shape[0] - GAP) // 2
    assert image.shape[1] == 2 * (48 + GAP) + GAP + 2 * GAP
    first = image[GAP:block, GAP:]
    blue = [(cell_of(first, 0, column) == gc_net.drawing.BLUE).all(axis=-1) for column in (0, 1)]
    widths = [np.ptp(np.flatnonzero(found.any(axis=0))) for found in blue]
    np.testing.assert_allclose(widths, [0.5 * 48, 0.9 * 48], atol=2)


def test_objects_show_single_ones_above_several(model):
    data = Several()
    image = grids.objects({"a": model}, data.split("test"), data.truth("test"), **OPTIONS)
    assert image.shape == (2 * (48 + GAP) + GAP, 4 * (48 + GAP) + GAP, 3)
    single = grids.objects({"a": model}, data.split("test"), Blocks().truth("test"), **OPTIONS)
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


def test_entropy_of_certainty_is_zero_and_not_nan():
    np.testing.assert_allclose(entropy._entropy(np.array([[1e4, 0.0], [3.0, 3.0]])), [0, np.log(2)])


@pytest.mark.parametrize("level", [0.25, 0.5, 0.75])
def test_plot_has_the_curves_where_the_values_are(level):
    x = np.linspace(0, 1, 5)

    def flat(value):
        return np.full(5, value), np.full((5, 2), value)

    series = {"a": flat(level), "b": flat(0.0), "c": flat(1.0)}
    plot = plots.line_plot(x, series, x_label="x", y_label="y", height=420, width=600)
    colors = [gc_net.drawing.BLUE, gc_net.drawing.RED, plots._COLORS[2]]
    rows = []
    for color in colors:
        drawn = (np.abs(plot[40:, 100:550] - np.float32(color)) < 40).all(axis=-1)
        rows.append(np.flatnonzero(drawn.any(axis=1)).mean())
    middle, bottom, top = rows
    assert bottom - top > 200
    assert (bottom - middle) / (bottom - top) == pytest.approx(level, abs=0.01)


def poppler(command, folder):
    """Run one of Poppler's programs, which know PDF better than we do."""
    if not shutil.which(command[0]):
        pytest.skip(f"needs {command[0]} (Debian: poppler-utils)")
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert result.stderr == ""


@pytest.mark.parametrize("shape", [(30, 50), (1, 1), (67, 33)])
def test_pdf_holds_the_image_without_loss(shape, tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    save_picture(tmp_path / "figure.pdf", image)
    poppler(["pdfimages", "-png", "figure.pdf", "out"], tmp_path)
    seen = cv2.imread(str(tmp_path / "out-000.png"), cv2.IMREAD_COLOR_RGB)
    np.testing.assert_array_equal(seen, image)


def test_pdf_shows_the_image_over_the_whole_page(tmp_path):
    colors = np.random.default_rng(0).integers(0, 256, (5, 9, 3), np.uint8)
    save_picture(tmp_path / "figure.pdf", np.kron(colors, np.ones((12, 12, 1), np.uint8)), 72)
    poppler(["pdftoppm", "-png", "-r", "72", "-singlefile", "figure.pdf", "out"], tmp_path)
    seen = cv2.imread(str(tmp_path / "out.png"), cv2.IMREAD_COLOR_RGB)
    assert seen.shape == (60, 108, 3)
    np.testing.assert_array_equal(seen[6::12, 6::12], colors)


def test_pdf_is_as_large_as_its_resolution_says():
    pdf = encode_pdf(np.zeros((300, 600, 3), np.uint8), dots_per_inch=150)
    assert b"/MediaBox [0 0 288.000 144.000]" in pdf  # 4 by 2 inches


def test_pdf_table_points_to_its_objects():
    pdf = encode_pdf(np.zeros((5, 7, 3), np.uint8))
    start = int(pdf.split(b"startxref\n")[1].split()[0])
    assert pdf[start:].startswith(b"xref\n0 6\n")
    for number, line in enumerate(pdf[start:].split(b"\n")[3:8], start=1):
        assert pdf[int(line[:10]) :].startswith(b"%d 0 obj" % number)


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_can_be_written(figure, model_dir, tmp_path):
    path = tmp_path / "figure.png"
    image = visualize(path, figure, [model_dir], lambda info: Several(), count=2, cell=40)
    np.testing.assert_array_equal(cv2.imread(str(path), cv2.IMREAD_COLOR_RGB), image)
    assert image.std() > 5


def test_tool_writes_a_figure(model_dir, tmp_path):
    command = [sys.executable, "-m", "tools.visualize", f"--model={model_dir}", "--count=2"]
    command += ["--dataset=creatures", "--dataset_options=num_test=4"]
    path = tmp_path / "figure.pdf"
    subprocess.run([*command, f"--output={path}"], check=True)
    assert path.read_bytes().startswith(b"%PDF")


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
    code = "import sys, tools.visualize; print('tensorflow' in sys.modules, 'cv2' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.split() == ["False", "False"]
