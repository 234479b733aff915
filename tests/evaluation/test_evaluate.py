"""Evaluation from end to end, on images and models whose every number can be recomputed."""

import dataclasses
import json
import os

import keras
import numpy as np
import pytest

from gc_net.data import transforms
from gc_net.data.splits import DataError, ImageError
from gc_net.datasets.folder import Folder
from gc_net.evaluation import measure
from gc_net.evaluation.evaluate import evaluate, evaluate_run, recorded_dataset, run_evaluation
from gc_net.evaluation.results import read_history
from gc_net.evaluation.tables import evaluation_table
from gc_net.report.report import render
from gc_net.saving import save_model
from gc_net.stages.run_folder import RunError
from gc_net.training_record import TrainingRecord
from tests.data import encoded
from tests.datasets.samples import write_photos, write_text
from tests.evaluation.models import (
    CLASS_NAMES,
    SIZE,
    Blocks,
    Masked,
    localizer_of,
    set_coefficients,
    tiny_model,
)
from tests.evaluation.test_protocols import step_by_step_boxes

RESIZE = 37  # 256 for 224, in proportion
BOX = (0.2, 0.25, 0.8, 0.75)


@pytest.fixture(scope="module")
def model():
    model = tiny_model("rectangle")
    set_coefficients(model, [0.5, 0.5, 0.6, 0.5])
    return model


def looking_model():
    """Return a model whose shapes and classes depend on what it sees."""
    keras.utils.set_random_seed(5)
    model, random = tiny_model("rectangle"), np.random.default_rng(8)
    read = Blocks().split("test").read
    images = np.stack([transforms.squash(read(index), SIZE) for index in range(9)])
    for network, spread in ((model.detector, 10), (model.classifier, 20)):
        outputs = network.head.get_layer("outputs")
        outputs.kernel.assign(random.normal(0, spread, outputs.kernel.shape))
        # No answer is the usual one.
        outputs.bias.assign_sub(np.mean(network(images), axis=0))
    return model


def plain_iou(a, b):
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    area = sum((c[2] - c[0]) * (c[3] - c[1]) for c in (a, b))
    return width * height / (area - width * height)


def in_crop(box):
    """The box of a 40 × 60 image relative to the central 32 of 37 pixels."""
    left, top, right, bottom = box
    corners = [left / 60 * 37, top / 40 * 37, right / 60 * 37, bottom / 40 * 37]
    return [(corner - 2) / 32 for corner in corners]


class TestNumbers:
    def test_are_those_of_a_loop_over_the_images(self, model):
        dataset = Blocks()
        result = evaluate(localizer_of(model), dataset, methods=["constant"], batch_size=4)
        images = np.stack([result.read_image(row) for row in range(9)])
        logits = model.predict(images, verbose=0)["class_logits"]
        labels = dataset.split("test").labels
        iou = [plain_iou(BOX, in_crop(dataset.box(index))) for index in range(9)]
        right = logits.argmax(axis=1) == labels
        located = np.array(iou) > 0.5
        metrics = result.metrics
        assert metrics["num_images"] == len(result) == 9
        np.testing.assert_allclose(result.iou, iou, atol=1e-3)  # coefficients are kept off 0 and 1
        assert metrics["corloc"] == pytest.approx(100 * located.mean(), abs=1e-3)
        assert metrics["mean_iou"] == pytest.approx(100 * np.mean(iou), abs=0.1)
        assert metrics["cls_err_top1"] == pytest.approx(100 * (~right).mean(), abs=1e-3)
        assert metrics["loc_err_top1"] == pytest.approx(100 * (~(right & located)).mean(), abs=1e-3)
        # Of three classes, all are among the first five, so that says nothing.
        assert not [name for name in metrics if "top5" in name]
        assert "top-1" in evaluation_table(metrics) and "top-5" not in evaluation_table(metrics)
        assert "top‑1" in render(result) and "top‑5" not in render(result)
        v2 = np.mean([np.array(iou) > level for level in (0.3, 0.5, 0.7)])
        assert metrics["max_box_acc_v2"] == pytest.approx(100 * v2, abs=1e-3)
        assert 0 < located.sum() < 9

    @pytest.mark.parametrize("ten_crop", [False, True])
    def test_of_five_classes_leave_out_the_sixth(self, ten_crop):
        names = tuple("abcdefg")
        model = tiny_model("rectangle", num_classes=7)
        set_coefficients(model, [0.4, 0.45, 0.4, 0.4])
        outputs = model.classifier.head.get_layer("outputs")
        outputs.kernel.assign(np.zeros(outputs.kernel.shape))
        # Of the labels, class 0 is always the first, class 1 the fifth and class 2 the sixth.
        outputs.bias.assign([7, 3, 2, 6, 5, 4, 1])
        dataset = Blocks(num_test=30, class_names=names)
        labels = dataset.split("test").labels
        result = evaluate(localizer_of(model, names), dataset, methods=[], ten_crop=ten_crop)
        assert result.top_classes.tolist() == [[0, 3, 4, 5, 1]] * 30
        metrics, located = result.metrics, result.located
        assert metrics["cls_err_top1"] == pytest.approx(100 * 20 / 30, abs=1e-3)
        assert metrics["cls_err_top5"] == pytest.approx(100 * 10 / 30, abs=1e-3)
        for label in range(3):
            assert 0 < located[labels == label].sum() < 10
        first, among_five = (labels == 0) & located, (labels <= 1) & located
        assert metrics["loc_err_top1"] == pytest.approx(100 * (~first).mean(), abs=1e-3)
        assert metrics["loc_err_top5"] == pytest.approx(100 * (~among_five).mean(), abs=1e-3)
        assert {"cls_err_top5_ci95", "loc_err_top5_ci95"} <= set(metrics)
        assert evaluation_table(metrics).count("top-5") == 2 and "top‑5" in render(result)

    def test_boxes_in_images_are_pixels_of_the_originals(self, model):
        dataset = Blocks()
        result = evaluate(localizer_of(model), dataset, methods=[])
        truth = result.boxes_in_images(result.truth_boxes_rel_xyxy)[:, 0]
        np.testing.assert_allclose(truth, [dataset.box(index) for index in range(9)], atol=1e-4)

    def test_of_the_whole_image_do_not_depend_on_the_crop(self, model):
        dataset = Blocks()
        result = evaluate(localizer_of(model), dataset, protocol="full", methods=[])
        boxes = [np.array(dataset.box(index)) / [60, 40, 60, 40] for index in range(9)]
        np.testing.assert_allclose(result.iou, [plain_iou(BOX, box) for box in boxes], atol=1e-3)
        assert result.resize_size == result.image_size == SIZE

    def test_ten_crops_average_the_probabilities_and_nothing_else(self):
        model, dataset = looking_model(), Blocks(num_test=30)
        result = evaluate(localizer_of(model), dataset, methods=["cam"], ten_crop=True)
        split = dataset.split("test")
        wrong, corners = [], []
        for index in range(30):
            image = transforms.squash(split.read(index), RESIZE)
            windows = transforms.ten_windows(RESIZE, SIZE)
            crops = np.stack([transforms.take(image, window, SIZE) for window in windows])
            odds = np.exp(np.asarray(model.classifier(crops)))
            odds /= odds.sum(axis=1, keepdims=True)
            wrong.append(odds.mean(axis=0).argmax() != split.labels[index])
            corners.append(crops[0])
        assert result.metrics["cls_err_top1"] == pytest.approx(100 * np.mean(wrong), abs=1e-3)
        assert result.metrics["ten_crop"]
        # All else is of the central crop alone.
        one_crop = evaluate(localizer_of(model), dataset, methods=["cam"])
        np.testing.assert_array_equal(result.top_classes, one_crop.top_classes)
        np.testing.assert_allclose(result.top_probabilities, one_crop.top_probabilities, atol=1e-4)
        np.testing.assert_allclose(result.coefficients, one_crop.coefficients, atol=1e-4)
        for name in ("corloc", "loc_err_top1", "methods"):
            assert result.metrics[name] == one_crop.metrics[name]
        # It matters that they are ten, and which one it is.
        assert result.metrics["cls_err_top1"] != one_crop.metrics["cls_err_top1"]
        of_corners = np.asarray(model.detector(np.stack(corners)))
        assert np.abs(of_corners - result.coefficients).max() > 0.05

    def test_batches_do_not_matter(self, model):
        results = [
            evaluate(localizer_of(model), Blocks(), methods=["cam", "ddt"], batch_size=size)
            for size in (2, 9)
        ]
        assert results[0].metrics == results[1].metrics

    def test_mask_iou_and_angle_error_where_they_are_known(self):
        model = tiny_model("rotated_rectangle")
        # 45° in the square, flatter in an image half as high again as it is wide.
        set_coefficients(model, [0.5, 0.5, 0.9, 0.1, np.pi / 4])
        result = evaluate(localizer_of(model), Masked(), methods=[])
        expected = np.degrees(np.arctan2(40, 60))
        np.testing.assert_allclose(result.angle_error, expected, atol=1.0)
        assert result.metrics["angle_error"] == pytest.approx(result.angle_error.mean(), abs=1e-3)
        assert result.metrics["mask_iou"] == pytest.approx(100 * result.mask_iou.mean(), abs=1e-3)
        boxed = tiny_model("rectangle")
        left, top, right, bottom = in_crop(Masked().box(0))
        set_coefficients(
            boxed, [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
        )
        result = evaluate(localizer_of(boxed), Masked(), methods=[])
        assert result.mask_iou[0] > 0.85  # but for the pixels along its edges
        assert result.angle_error is None  # an upright shape has no angle


@pytest.mark.usefixtures("eager")
class TestWhatIsLeftOut:
    def test_unreadable_images_are_named_and_in_no_denominator(self, model):
        result = evaluate(localizer_of(model), Blocks(bad=(2, 5)), methods=["constant"])
        assert result.metrics["num_images"] == len(result) == 7
        assert result.metrics["num_unreadable"] == 2
        assert result.unreadable == (("test/2.png", "truncated"), ("test/5.png", "truncated"))
        assert result.index.tolist() == [0, 1, 3, 4, 6, 7, 8]
        full = evaluate(localizer_of(model), Blocks(), methods=[])
        expected = 100 * full.located[result.index].mean()
        assert result.metrics["corloc"] == pytest.approx(expected, abs=1e-3)

    def test_images_without_boxes_count_for_classes_only(self, model):
        result = evaluate(localizer_of(model), Blocks(without_boxes=(0, 4)), methods=["cam"])
        full = evaluate(localizer_of(model), Blocks(), methods=[])
        kept = np.setdiff1d(np.arange(9), (0, 4))
        assert result.metrics["num_images"] == 9
        assert result.metrics["num_without_boxes"] == 2
        assert result.metrics["cls_err_top1"] == full.metrics["cls_err_top1"]
        expected = 100 * full.located[kept].mean()
        assert result.metrics["corloc"] == pytest.approx(expected, abs=1e-3)
        assert np.isnan(result.iou[[0, 4]]).all()

    @pytest.mark.parametrize("without", [{"boxes": False}, {"without_boxes": range(9)}])
    def test_without_any_box_the_classes_are_measured_all_the_same(self, model, without):
        options = {"ten_crop": True, "methods": ["constant", "cam"]}
        metrics = evaluate(localizer_of(model), Blocks(**without), **options).metrics
        full = evaluate(localizer_of(model), Blocks(), **options).metrics
        for name in ("cls_err_top1", "cls_err_top1_ci95", "num_images"):
            assert metrics[name] == full[name]
        assert metrics["num_without_boxes"] == 9
        assert metrics["methods"] == {}
        located = {name for name in full if name.startswith(("loc_err", "corloc", "mean_iou"))}
        assert located and not located & set(metrics)

    def test_a_limit_takes_images_from_all_over_the_split(self, model):
        result = evaluate(localizer_of(model), Blocks(), methods=[], limit=3)
        assert result.index.tolist() == [0, 3, 6]


@pytest.mark.usefixtures("eager")
class TestErrors:
    @pytest.mark.parametrize(
        ("dataset", "names", "message"),
        [
            (Blocks(num_test=0), CLASS_NAMES, "'test' split of the dataset 'blocks' is empty"),
            (Blocks(class_names="abcd"), CLASS_NAMES, "3 classes, the dataset .* has 4"),
            (
                Blocks(class_names=("red", "lime", "blue")),
                CLASS_NAMES,
                "Class 1 is 'green' .* 'lime'",
            ),
            (Blocks(), (), "has 3 classes, and 0 names"),
            (Blocks(), CLASS_NAMES[:2], "has 3 classes, and 2 names"),
            (Blocks(bad=range(9)), CLASS_NAMES, "No image could be evaluated.*truncated"),
        ],
    )
    def test_say_what_does_not_fit(self, model, dataset, names, message):
        with pytest.raises(ValueError, match=f"(?s){message}"):
            evaluate(localizer_of(model, names), dataset, methods=[])

    def test_training_images_that_cannot_be_read_for_a_method(self, model, monkeypatch):
        dataset, split = Blocks(), Blocks.split

        def broken(index):
            raise ImageError("truncated")

        def damaged_train(self, name):
            whole = split(self, name)
            return dataclasses.replace(whole, read=broken) if name == "train" else whole

        monkeypatch.setattr(Blocks, "split", damaged_train)
        with pytest.raises(ValueError, match="'ddt' cannot be used: None of the training im"):
            evaluate(localizer_of(model), dataset, methods=["ddt"])
        # One that was not asked for by name is left out.
        assert "ddt" not in evaluate(localizer_of(model), dataset).metrics["methods"]

    def test_a_classifier_localizes_nothing(self, model, tmp_path):
        save_model(tmp_path, model.classifier, CLASS_NAMES)
        with pytest.raises(ValueError, match="Classifier, which localizes nothing"):
            run_evaluation(tmp_path, Blocks(), tmp_path / "evaluation")

    def test_no_box_among_the_evaluated_images(self, model):
        with pytest.raises(DataError, match="None of the 3 evaluated images"):
            evaluate(localizer_of(model), Blocks(without_boxes=(0, 3, 6)), methods=[], limit=3)

    def test_an_unknown_method_names_the_known_ones(self, model):
        with pytest.raises(ValueError, match=r"Unknown method 'camera'.*grad_cam"):
            evaluate(localizer_of(model), Blocks(), methods=["camera"])

    def test_a_method_that_was_asked_for_and_does_not_fit(self):
        model = tiny_model(head="position")
        with pytest.raises(ValueError, match=r"'cam' cannot be used.*one linear layer"):
            evaluate(localizer_of(model), Blocks(), methods=["cam"])

    def test_a_method_that_was_not_asked_for_is_left_out_with_a_warning(self, caplog):
        result = evaluate(localizer_of(tiny_model(head="position")), Blocks(), limit=3)
        assert "cam_fixed" not in result.methods
        assert "grad_cam_fixed" in result.methods
        assert "'cam' is left out" in caplog.text

    def test_whole_images_have_no_ten_crops(self, model):
        with pytest.raises(ValueError, match="'full' has no crops"):
            evaluate(localizer_of(model), Blocks(), protocol="full", ten_crop=True)

    @pytest.mark.parametrize("protocol", ["full", "wsoleval"])
    def test_whole_images_are_squashed_to_one_size(self, model, tmp_path, protocol):
        localizer_of(model, resize_size=40).save(tmp_path / "model")
        options = {"protocol": protocol, "methods": [], "limit": 1}
        with pytest.raises(ValueError, match=f"'{protocol}' shows whole images: .* resize_size"):
            run_evaluation(
                tmp_path / "model", Blocks(), tmp_path / "evaluation", resize_size=40, **options
            )
        # What the model was trained with is no such wish.
        metrics = run_evaluation(tmp_path / "model", Blocks(), tmp_path / "evaluation", **options)
        assert metrics["settings"]["resize_size"] == SIZE

    def test_a_model_that_does_not_say_what_it_was_trained_on(self):
        with pytest.raises(ValueError, match="Name one"):
            recorded_dataset(TrainingRecord())


@pytest.mark.parametrize("boxes", ["mine, too.csv", "name=value.csv", "2024"])
@pytest.mark.parametrize("options", ["", "seed=3,boxes=absent.csv"])
def test_a_box_file_may_have_any_name_and_comes_before_that_of_the_record(tmp_path, boxes, options):
    write_photos(tmp_path, {"train/a": 1, "train/b": 1, "val/a": 1, "val/b": 1})
    if boxes.endswith(".csv"):
        text = "path,xmin,ymin,xmax,ymax\nval/b/000.png,1,2,3,4\n"
        write_text(tmp_path / boxes, text)
    else:
        text = "<annotation><filename>val/b/000.png</filename><object><name>b</name><bndbox>"
        text += "<xmin>2</xmin><ymin>3</ymin><xmax>3</xmax><ymax>4</ymax></bndbox></object>"
        write_text(tmp_path / boxes / "one.xml", f"{text}</annotation>")
    data = {"dataset": "folder", "data_dir": str(tmp_path), "dataset_options": options}
    dataset = recorded_dataset(TrainingRecord({"data": data}), boxes=boxes)
    assert dataset.truth("test").boxes.tolist() == [[1, 2, 3, 4]]


def test_a_box_file_for_a_dataset_that_takes_none_is_an_error_that_names_it():
    with pytest.raises(DataError, match=r"'creatures' cannot be opened with .*'boxes': 'a,b.csv'"):
        recorded_dataset(TrainingRecord(), dataset="creatures", boxes="a,b.csv")


def test_a_photo_that_was_taken_sideways_is_compared_with_boxes_of_it_upright(tmp_path):
    write_photos(tmp_path, {"train/a": 1, "train/b": 1, "val/b": 1})
    upright = encoded.photo(60, 40)
    turned = encoded.jpeg_with_exif(np.ascontiguousarray(np.rot90(upright)), 6)
    (tmp_path / "val" / "a").mkdir()
    (tmp_path / "val" / "a" / "turned.jpg").write_bytes(turned)
    write_text(tmp_path / "boxes.csv", "path,xmin,ymin,xmax,ymax\nval/a/turned.jpg,4,33,20,51\n")
    model = tiny_model("rectangle", num_classes=2)
    set_coefficients(model, [12 / 40, 42 / 60, 16 / 40, 18 / 60])
    result = evaluate(
        localizer_of(model, ("a", "b")), Folder(tmp_path), protocol="full", methods=[]
    )
    assert result.files[0] == "val/a/turned.jpg"
    assert result.sizes[0].tolist() == [60, 40]
    assert result.iou[0] == pytest.approx(1, abs=1e-3)
    box = result.boxes_in_images(result.boxes_rel_xyxy)[0]
    np.testing.assert_allclose(box, [4, 33, 20, 51], atol=0.05)
    # As the network sees it, but for what JPEG loses.
    seen = result.read_image(0).astype(int)
    assert np.abs(seen - transforms.squash(upright, SIZE)).mean() < 5


@pytest.mark.usefixtures("eager")
class TestFiles:
    @pytest.fixture(scope="class")
    def output(self, model, tmp_path_factory):
        folder = tmp_path_factory.mktemp("run")
        localizer_of(model, resize_size=40).save(folder / "model")
        metrics = run_evaluation(
            folder / "model",
            lambda record: Blocks(bad=(1,)),
            folder / "evaluation",
            protocol="wsoleval",
            methods=["constant", "cam"],
            score_maps=True,
            report=False,
        )
        return folder / "evaluation", metrics

    def test_metrics_json_has_every_key_and_intervals_beside(self, output):
        folder, metrics = output
        content = json.loads((folder / "metrics.json").read_text())
        assert content == json.loads(json.dumps(metrics))
        percentages = ["cls_err_top1", "loc_err_top1", "corloc", "mean_iou", "max_box_acc_v2"]
        for name in percentages:
            low, high = content[f"{name}_ci95"]
            assert 0 <= low <= content[name] <= high <= 100
        assert content["num_images"] == 8
        assert content["protocol"] == "wsoleval"
        assert content["dataset"] == "blocks"
        assert content["model"].endswith("model")
        tuned = {name: item["tuned"] for name, item in content["methods"].items()}
        assert tuned == {
            "constant_fixed": False,
            "constant_best": True,
            "cam_fixed": False,
            "cam_best": True,
        }

    def test_predictions_json_is_in_pixels_of_the_images(self, output):
        content = json.loads((output[0] / "predictions.json").read_text())
        assert content["unreadable"] == [["test/1.png", "truncated"]]
        record = content["images"][0]
        assert record["file"] == "test/0.png"
        assert record["class"] == "red"
        np.testing.assert_allclose(record["truth_boxes_xyxy"], [Blocks().box(0)], atol=0.01)
        np.testing.assert_allclose(record["box_xyxy"], [12, 10, 48, 30], atol=0.05)
        assert len(content["images"]) == 8

    def test_score_maps_give_the_same_numbers_when_followed_step_by_step(self, output):
        folder, metrics = output
        lists = folder / "wsoleval" / "metadata" / "CUB" / "test"
        ids = (lists / "image_ids.txt").read_text().split()
        sizes = dict(line.split(",", 1) for line in (lists / "image_sizes.txt").read_text().split())
        boxes = dict(
            line.split(",", 1) for line in (lists / "localization.txt").read_text().split()
        )
        labels = (lists / "class_labels.txt").read_text().split()
        assert labels[:2] == ["test/0.png,0", "test/2.png,2"]
        assert len(ids) == 8
        located = []
        for image_id in ids:
            score_map = np.load(folder / "wsoleval" / "scoremaps" / f"{image_id}.npy")
            assert score_map.shape == (224, 224)
            width, height = map(int, sizes[image_id].split(","))
            scale = np.array([width, height, width, height])
            truth = (np.array(list(map(int, boxes[image_id].split(",")))) * 224 / scale).astype(int)
            largest, _ = step_by_step_boxes(score_map, 0.5, [truth])
            located.append(largest >= 0.5)
        assert metrics["corloc"] == pytest.approx(100 * np.mean(located), abs=1e-3)
        assert 0 < np.mean(located) < 1

    def test_no_temporary_file_is_left(self, output):
        files = [file for _, _, files in os.walk(output[0]) for file in files]
        assert files and not [file for file in files if file.endswith(".partial")]


class Elsewhere(Blocks):
    name = "elsewhere"


@pytest.mark.usefixtures("eager")
class TestAnEvaluationThatIsThere:
    @pytest.fixture
    def folders(self, model, tmp_path):
        """A saved model, and where its evaluation is written."""
        localizer_of(model, resize_size=40).save(tmp_path / "model")
        return tmp_path / "model", tmp_path / "evaluation"

    @pytest.mark.parametrize(
        ("other", "message"),
        [
            ({"protocol": "full"}, "protocol was 'paper', now 'full'; resize_size was 40, now 32"),
            ({"split": "train"}, "split was 'test', now 'train'"),
            ({"ten_crop": True}, "ten_crop was False, now True"),
            ({"limit": 3}, "limit was None, now 3"),
            ({"second_look": 1.3}, "second_look was 0.0, now 1.3"),
            ({"resize_size": 36}, "resize_size was 40, now 36"),
            ({"dataset": Elsewhere()}, "dataset was 'blocks', now 'elsewhere'"),
            ({"dataset": Blocks(num_test=8)}, "images was '9 images, .*, now '8 images, "),
        ],
    )
    def test_is_not_replaced_by_one_measured_otherwise_unless_told_to(
        self, folders, monkeypatch, other, message
    ):
        model_dir, output = folders
        other = {"dataset": Blocks(), **other}
        run_evaluation(model_dir, Blocks(), output, methods=["constant"])
        before = {path.name: path.read_bytes() for path in output.iterdir()}
        with monkeypatch.context() as patch:
            patch.setattr(measure, "collect", None)  # refused before the pass
            with pytest.raises(ValueError, match=rf"another way: .*{message}.*--output"):
                run_evaluation(model_dir, output_dir=output, replace=False, **other)
        assert {path.name: path.read_bytes() for path in output.iterdir()} == before
        metrics = run_evaluation(model_dir, output_dir=output, methods=[], **other)
        assert json.loads((output / "metrics.json").read_text()) == metrics

    def test_shows_the_training_where_the_folder_of_the_run_is_given(self, folders):
        model_dir, output = folders
        run = model_dir.parent
        (run / "config.json").write_text("{}")
        (run / "detector").mkdir()
        (run / "detector" / "log.csv").write_text("epoch,loss\n0,1.5\n")
        run_evaluation(run, Blocks(), output, methods=[])
        assert "Detector: losses" in (output / "report.html").read_text()

    @pytest.mark.parametrize("bad", [(), (4,)])
    def test_is_replaced_by_one_measured_alike(self, folders, bad):
        model_dir, output = folders
        run_evaluation(model_dir, Blocks(bad=bad), output, methods=["constant"])
        metrics = run_evaluation(
            model_dir, Blocks(), output, methods=[], replace=False, second_look=0
        )
        assert json.loads((output / "metrics.json").read_text()) == metrics
        assert metrics["methods"] == {}

    def test_that_is_damaged_or_does_not_say_how_is_replaced(self, folders):
        model_dir, output = folders
        output.mkdir()
        for text in ("{", '{"corloc": 70.0}'):
            (output / "metrics.json").write_text(text)
            run_evaluation(model_dir, Blocks(), output, methods=[], replace=False)
            assert json.loads((output / "metrics.json").read_text())["num_images"] == 9

    def test_leaves_no_report_beside_other_numbers(self, folders):
        model_dir, output = folders
        run_evaluation(model_dir, Blocks(), output, methods=[])
        assert "The predicted box is right" in (output / "report.html").read_text()
        run_evaluation(model_dir, Blocks(boxes=False), output)
        assert "No image has a true box" in (output / "report.html").read_text()
        run_evaluation(model_dir, Blocks(), output, report=False)
        assert sorted(os.listdir(output)) == ["metrics.json", "predictions.json"]


@pytest.mark.usefixtures("eager")
class TestFilesWithoutBoxes:
    @pytest.fixture(scope="class")
    def model_dir(self, model, tmp_path_factory):
        folder = tmp_path_factory.mktemp("run") / "model"
        localizer_of(model).save(folder)
        return folder

    def test_are_those_of_the_classes_and_what_is_missing_is_said(
        self, model_dir, tmp_path, capsys
    ):
        metrics = run_evaluation(model_dir, Blocks(boxes=False), tmp_path)
        assert sorted(os.listdir(tmp_path)) == ["metrics.json", "predictions.json", "report.html"]
        assert json.loads((tmp_path / "metrics.json").read_text()) == metrics
        record = json.loads((tmp_path / "predictions.json").read_text())["images"][0]
        assert record["truth_boxes_xyxy"] == [] and record["iou"] is None
        printed = capsys.readouterr().out
        assert f"{metrics['cls_err_top1']:.2f}" in printed
        assert "No image has a true box" in printed and "--boxes" in printed
        assert "confidence" not in metrics and 0 <= record["confidence"] <= 1

    @pytest.mark.parametrize(
        ("dataset", "told"),
        [
            (Blocks(), "evaluation/report.html"),
            (Blocks(boxes=False), "evaluation/report.html"),
            (Blocks(num_test=0, boxes=False), "no test images to evaluate it on"),
        ],
    )
    def test_a_run_ends_with_what_can_be_measured(self, tmp_path, capsys, model, dataset, told):
        localizer_of(model).save(tmp_path / "model")
        evaluate_run(tmp_path / "model", dataset)
        printed = capsys.readouterr().out
        # The shape of this model does not depend on the image.
        assert told in printed and "The shapes hardly follow the images: " in printed
        if "/" in told:
            assert (tmp_path / told).exists()

    def test_a_run_that_cannot_be_evaluated_has_its_model_all_the_same(
        self, model_dir, monkeypatch
    ):
        def truth(dataset, name):
            raise DataError("photos holds several box files. Say which one with boxes=…")

        monkeypatch.setattr(Blocks, "truth", truth)
        with pytest.raises(RunError) as caught:
            evaluate_run(model_dir, Blocks())
        message = str(caught.value)
        assert f"the model is in {model_dir}, but it was not evaluated: photos holds" in message
        assert f"gc-net evaluate --model={model_dir}" in message and "--boxes" in message

    def test_score_maps_need_boxes(self, model_dir, tmp_path):
        with pytest.raises(DataError, match="'test' split of the dataset 'blocks' has no boxes"):
            run_evaluation(
                model_dir, Blocks(boxes=False), tmp_path, protocol="wsoleval", score_maps=True
            )


@pytest.mark.usefixtures("eager")
class TestPictures:
    def test_images_and_masks_are_those_the_network_saw(self, model):
        result = evaluate(localizer_of(model), Blocks(bad=(0,)), methods=[])
        image = transforms.squash(Blocks().split("test").read(1), RESIZE)[2:34, 2:34]
        np.testing.assert_array_equal(result.read_image(0), image)
        masks = result.render_masks(np.array([0, 3]))
        assert masks.shape == (2, SIZE, SIZE)
        assert masks[0, 16, 16] > 0.5 > masks[0, 0, 0]

    def test_the_mean_colour_normalizes_to_zero(self, model):
        result = evaluate(localizer_of(model), Blocks(), methods=[], limit=1)
        np.testing.assert_allclose(result.mean_color, 127.0, atol=1e-3)


class TestHistory:
    def test_reads_the_logs_of_every_stage_of_the_run(self, tmp_path):
        (tmp_path / "detector").mkdir()
        (tmp_path / "detector" / "log.csv").write_text("epoch,loss\n0,2.5\n1,1.5\n")
        assert read_history(tmp_path / "model") == {}  # not the folder of a run
        (tmp_path / "config.json").write_text("{}")
        history = read_history(tmp_path / "model")
        assert list(history) == ["detector"]
        assert history["detector"]["loss"].tolist() == [2.5, 1.5]
