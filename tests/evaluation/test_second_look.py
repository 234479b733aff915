"""The second look in evaluation, against loops by hand, and the choice of it without boxes."""

import json

import keras
import numpy as np
import pytest

import gc_net
from gc_net.data import transforms
from gc_net.data.splits import DataError
from gc_net.evaluation import second_look
from gc_net.evaluation.evaluate import evaluate, run_evaluation
from gc_net.prediction.second_look import SecondLook
from gc_net.saving import save_model
from gc_net.stages.config import DataConfig
from gc_net.training.folds import assign_folds
from gc_net.training_record import TrainingRecord
from tests.evaluation.models import (
    CLASS_NAMES,
    SIZE,
    Blocks,
    localizer_of,
    set_coefficients,
    tiny_model,
)
from tests.processes import run_tool

pytestmark = pytest.mark.usefixtures("eager")

LOOK, RESIZE = 1.2, 37
CENTER, EXTENT = np.array([0.3, 0.6]), np.array([0.4, 0.3])


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(5)
    model = tiny_model("rectangle")
    set_coefficients(model, [*CENTER, *EXTENT])
    outputs = model.classifier.head.get_layer("outputs")
    outputs.kernel.assign(np.random.default_rng(0).normal(0, 20, outputs.kernel.shape))
    # No class is likeliest for all images.
    read = Blocks().split("test").read
    images = np.stack([transforms.squash(read(index), SIZE) for index in range(9)])
    outputs.bias.assign_sub(np.mean(model.classifier(images), axis=0))
    return model


@pytest.fixture(scope="module")
def namer(model):
    """A classifier of larger close-ups, which says other classes than the model's own."""
    namer = gc_net.Classifier("tiny", len(CLASS_NAMES), SIZE + 12, weights=None, name="namer")
    outputs = namer.head.get_layer("outputs")
    outputs.kernel.assign(np.random.default_rng(1).normal(0, 20, outputs.kernel.shape))
    return namer


def probabilities(classifier, images):
    odds = np.exp(np.asarray(classifier(np.stack(images))))
    return odds / odds.sum(axis=1, keepdims=True)


def close_up(image, center, extent, look=LOOK):
    """The square around a box, by hand; all in coordinates relative to the whole image."""
    height, width = image.shape[:2]
    side = min(1.0, look * max(extent))
    corner = np.clip(center - side / 2, 0, 1 - side)
    left, top = np.rint(corner * [width, height]).astype(int)
    right, bottom = np.rint((corner + side) * [width, height]).astype(int)
    return transforms.squash(np.ascontiguousarray(image[top:bottom, left:right]), SIZE)


def looked_at(classifier, protocol):
    """First and second probabilities [9, 3] of the test images, by hand."""
    read = Blocks().split("test").read
    first, second = [], []
    for index in range(9):
        image = read(index)
        if protocol == "full":
            first.append(transforms.squash(image, SIZE))
            second.append(close_up(image, CENTER, EXTENT))
        else:
            first.append(transforms.squash(image, RESIZE)[2 : 2 + SIZE, 2 : 2 + SIZE])
            second.append(close_up(image, (CENTER * SIZE + 2) / RESIZE, EXTENT * SIZE / RESIZE))
    return probabilities(classifier, first), probabilities(classifier, second)


@pytest.mark.parametrize("protocol", ["paper", "full"])
def test_classes_are_those_of_the_mean_of_both_looks(model, protocol):
    options = {"protocol": protocol, "methods": ["constant", "cam"], "batch_size": 4}
    plain = evaluate(localizer_of(model), Blocks(), **options)
    result = evaluate(localizer_of(model), Blocks(), second_look=LOOK, **options)
    first, second = looked_at(model.classifier, protocol)
    mean = (first + second) / 2
    labels = Blocks().split("test").labels
    np.testing.assert_allclose(-np.sort(-mean), result.top_probabilities, atol=1e-4)
    np.testing.assert_array_equal(mean.argmax(axis=1), result.top_classes[:, 0])
    right = mean.argmax(axis=1) == labels
    assert result.metrics["cls_err_top1"] == pytest.approx(100 * (~right).mean(), abs=1e-3)
    expected = 100 * (~(right & result.located)).mean()
    assert result.metrics["loc_err_top1"] == pytest.approx(expected, abs=1e-3)
    # It matters, and only to the classes of the model itself.
    assert (result.top_classes != plain.top_classes).any()
    np.testing.assert_array_equal(result.boxes_rel_xyxy, plain.boxes_rel_xyxy)
    for name in ("corloc", "mean_iou", "methods"):
        assert result.metrics[name] == plain.metrics[name]
    assert result.metrics["settings"]["second_look"] == LOOK
    assert plain.metrics["settings"]["second_look"] == 0.0


def test_ten_crops_are_averaged_with_the_close_up(model):
    options = {"methods": [], "ten_crop": True}
    result = evaluate(localizer_of(model), Blocks(), second_look=LOOK, **options)
    _, second = looked_at(model.classifier, "paper")
    read, labels = Blocks().split("test").read, Blocks().split("test").labels
    wrong = []
    for index in range(9):
        image = transforms.squash(read(index), RESIZE)
        windows = transforms.ten_windows(RESIZE, SIZE)
        crops = [transforms.take(image, window, SIZE) for window in windows]
        mean = (probabilities(model.classifier, crops).mean(axis=0) + second[index]) / 2
        wrong.append(mean.argmax() != labels[index])
    assert result.metrics["cls_err_top1"] == pytest.approx(100 * np.mean(wrong), abs=1e-3)


@pytest.mark.parametrize("with_namer", [False, True])
def test_evaluation_sees_what_prediction_sees(model, namer, with_namer):
    second = namer if with_namer else None
    looking = localizer_of(model, resize_size=SIZE, second_look=LOOK, second_classifier=second)
    result = evaluate(looking, Blocks(), protocol="full", methods=[])
    read = Blocks().split("test").read
    predictions = looking.predict([read(index) for index in range(9)])
    for row, prediction in enumerate(predictions):
        found = [score.probability for score in prediction.classes]
        np.testing.assert_allclose(found, result.top_probabilities[row], atol=1e-5)
        assert prediction.class_id == result.top_classes[row, 0]


@pytest.mark.parametrize("look", [0.0, LOOK])
def test_the_metrics_tell_the_namer_that_was_asked(model, namer, look):
    for given, size in ((namer, SIZE + 12), (None, None)):
        named = localizer_of(model, second_look=LOOK, second_classifier=given)
        result = evaluate(named, Blocks(), methods=[], limit=3, second_look=look)
        assert result.metrics["settings"]["second_classifier_size"] == (size if look else None)


def test_the_model_says_the_look_and_may_be_overruled(model, tmp_path):
    localizer_of(model, second_look=LOOK).save(tmp_path / "model")
    options = {"methods": [], "report": False}
    given = tmp_path / "model", Blocks()
    own = run_evaluation(*given, tmp_path / "own", **options)
    without = run_evaluation(*given, tmp_path / "without", second_look=0.0, **options)
    assert own["settings"]["second_look"] == LOOK and without["settings"]["second_look"] == 0.0
    plain = evaluate(localizer_of(model), Blocks(), methods=[]).metrics
    assert {**without, "model": ""} == json.loads(json.dumps(plain))
    assert json.loads((tmp_path / "own" / "metrics.json").read_text()) == own
    with pytest.raises(ValueError, match="`second_look` must be 0, for no second look"):
        run_evaluation(*given, tmp_path / "refused", second_look=-1.0, **options)


def test_a_cache_of_squashed_images_does_not_keep_from_looking_closer(model, tmp_path):
    options = {"methods": [], "second_look": LOOK}
    plain = evaluate(localizer_of(model), Blocks(), **options)
    for _ in range(2):
        cached = evaluate(localizer_of(model), Blocks(), cache=tmp_path, **options)
        assert cached.metrics == plain.metrics
        np.testing.assert_array_equal(cached.top_probabilities, plain.top_probabilities)


def test_unreadable_images_are_left_out_as_ever(model):
    result = evaluate(localizer_of(model), Blocks(bad=(2, 5)), methods=[], second_look=LOOK)
    full = evaluate(localizer_of(model), Blocks(), methods=[], second_look=LOOK)
    assert result.index.tolist() == [0, 1, 3, 4, 6, 7, 8]
    expected = full.top_probabilities[result.index]
    np.testing.assert_allclose(result.top_probabilities, expected, atol=1e-5)


def test_an_original_that_is_gone_at_the_second_look_is_an_error(model):
    data = Blocks(bad=(2,)).split("test")
    judge = SecondLook(model.classifier, data, [LOOK], required=True)
    with pytest.raises(DataError, match=r"for the second look\. 1 unreadable image skipped"):
        judge([1, 2], np.tile([0.2, 0.2, 0.6, 0.5], (2, 1)))


class TestChoosing:
    def test_rows_are_those_of_a_loop_over_the_images(self, model):
        data = Blocks().split("train")
        whole = localizer_of(model, resize_size=SIZE)
        rows = second_look.measure(
            whole, data, [(model.classifier, np.arange(12))], looks=(0.5, LOOK)
        )
        images = [data.read(index) for index in range(12)]
        whole = probabilities(model.classifier, [transforms.squash(i, SIZE) for i in images])
        assert [row["look"] for row in rows] == [None, 0.5, LOOK]
        for row in rows:
            region = whole
            if row["look"]:
                close_ups = [close_up(image, CENTER, EXTENT, row["look"]) for image in images]
                region = probabilities(model.classifier, close_ups)
            for prefix, found in (("", region), ("both_", (region + whole) / 2)):
                right = found.argmax(axis=1) == data.labels
                assert row[f"{prefix}accuracy"] == pytest.approx(right.mean())
                entropy = -np.log(found[np.arange(12), data.labels]).mean()
                assert row[f"{prefix}cross_entropy"] == pytest.approx(entropy, abs=1e-3)
            assert row["num_images"] == 12

    def test_the_table_marks_the_highest_accuracy_of_both(self):
        row = {"accuracy": 0.5, "cross_entropy": 1.0, "both_cross_entropy": 1.0}
        lines = second_look.looks_table(
            [
                {"look": None, **row, "both_accuracy": 0.5},
                {"look": 0.7, **row, "both_accuracy": 0.625},
                {"look": 1.15, **row, "both_accuracy": 0.25},
            ]
        ).splitlines()
        assert "look=0.7" in lines[3] and "62.5 %<" in lines[3]
        assert "look=1.15" in lines[4] and "25.0 % " in lines[4]
        assert sum("<" in line for line in lines) == 1

    def test_no_box_is_read_and_it_says_who_judged(self, model, tmp_path, monkeypatch, capsys):
        localizer_of(model, resize_size=SIZE).save(tmp_path)
        monkeypatch.setattr(Blocks, "truth", lambda self, name: pytest.fail("boxes were read"))
        rows = second_look.diagnose_looks(tmp_path, Blocks(), limit=6)
        printed = capsys.readouterr().out
        assert [row["look"] for row in rows] == [None, *second_look.LOOKS]
        assert "6 train images" in printed and "No box was read" in printed
        assert "fitted on these very images" in printed
        second_look.diagnose_looks(tmp_path, Blocks(), split="test", limit=3)
        assert "should not be measured on them" in capsys.readouterr().out

    def test_an_imagenet_network_as_it_is_was_not_fitted_on_these_images(
        self, model, tmp_path, capsys
    ):
        record = TrainingRecord({"classifier": {"recipe": "none"}})
        localizer_of(model, resize_size=SIZE, record=record).save(tmp_path)
        second_look.diagnose_looks(tmp_path, Blocks(), limit=3)
        printed = capsys.readouterr().out
        assert "an ImageNet network as it is" in printed and "these very images" not in printed

    def test_where_no_image_can_be_read_it_says_so(self, model, tmp_path):
        localizer_of(model, resize_size=SIZE).save(tmp_path)
        bad = Blocks(num_test=4, bad=range(4))
        with pytest.raises(DataError, match=r"No image could be evaluated\. 4 unreadable images"):
            second_look.diagnose_looks(tmp_path, bad, split="test")

    def test_a_model_with_a_second_classifier_keeps_the_look_that_it_was_trained_for(
        self, model, namer, tmp_path
    ):
        localizer_of(model, second_look=LOOK, second_classifier=namer).save(tmp_path)
        expected = r"it was trained for: --second_look=1\.2.*before a second classifier"
        with pytest.raises(ValueError, match=expected):
            second_look.diagnose_looks(tmp_path, Blocks(), limit=3)

    @pytest.mark.parametrize(
        ("best", "advice"),
        [(None, "No second look helps: --second_look=0."), (1.3, "at --second_look=1.3.")],
    )
    def test_what_does_best_is_advised_be_it_no_second_look(
        self, tmp_path, capsys, monkeypatch, best, advice
    ):
        rows = [
            {
                "look": look,
                "num_images": 9,
                "accuracy": 0.5,
                "cross_entropy": 1.0,
                "both_accuracy": 0.8 if look == best else 0.6,
                "both_cross_entropy": 1.0,
            }
            for look in (None, 1.0, 1.3)
        ]
        monkeypatch.setattr(second_look, "measure", lambda *arguments, **options: rows)
        localizer_of(tiny_model()).save(tmp_path)
        second_look.diagnose_looks(tmp_path, Blocks(), limit=3)
        assert advice in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--classifiers=runs/x",), "--classifiers is for --second_looks"),
        (("--second_looks", "--landscape"), "one reads boxes, the other must not"),
    ],
)
def test_the_tool_refuses_flags_that_do_not_go_together(flags, message):
    ended = run_tool("diagnose", "--model=runs/none", *flags)
    assert ended.returncode != 0
    assert message in ended.stdout + ended.stderr


class TestFolds:
    SEED = 11

    @pytest.fixture
    def run_dir(self, tmp_path):
        """A run of two folds: the classifier for images of fold 0 always says class 0."""
        split, config = Blocks().split("train"), DataConfig(image_size=SIZE)
        for fold in range(2):
            classifier = gc_net.Classifier("tiny", 3, SIZE, weights=None)
            outputs = classifier.head.get_layer("outputs")
            outputs.kernel.assign(np.zeros(outputs.kernel.shape))
            outputs.bias.assign(np.eye(3)[fold] * 5)
            save_model(tmp_path / f"run/classifier_fold{fold}/model", classifier, CLASS_NAMES)
        (tmp_path / "run/classifier").mkdir()
        self.record(
            tmp_path / "run",
            data=config.to_dict(),
            classifier={"num_folds": 2},
            seed=self.SEED,
            training_images=split.fingerprint(),
        )
        return tmp_path / "run"

    def record(self, run_dir, **changes):
        path = run_dir / "classifier" / "config.json"
        config = json.loads(path.read_text())["config"] if path.exists() else {}
        path.write_text(json.dumps({"config": {**config, **changes}}))

    @pytest.fixture
    def model_dir(self, model, tmp_path):
        localizer_of(model, resize_size=SIZE).save(tmp_path / "model")
        return tmp_path / "model"

    def test_each_image_is_judged_by_the_classifier_not_fitted_on_it(
        self, run_dir, model_dir, capsys
    ):
        rows = second_look.diagnose_looks(model_dir, Blocks(), classifiers=str(run_dir))
        labels = Blocks().split("train").labels
        folds = assign_folds(labels, 2, self.SEED)
        assert all(row["accuracy"] == pytest.approx(np.mean(labels == folds)) for row in rows)
        assert rows[0]["num_images"] == 12
        assert "by the one that was not fitted on it" in capsys.readouterr().out

    def test_what_tells_nothing_of_these_images_is_refused(self, run_dir, model_dir, tmp_path):
        def diagnosed(**options):
            second_look.diagnose_looks(model_dir, Blocks(), classifiers=str(run_dir), **options)

        with pytest.raises(ValueError, match="use the train split"):
            diagnosed(split="test")
        self.record(run_dir, data=DataConfig(image_size=64).to_dict())
        with pytest.raises(ValueError, match="images of 64 pixels, the model of 32"):
            diagnosed()
        self.record(run_dir, training_images="5 images, abc")
        with pytest.raises(ValueError, match="were fitted on other images: 5 images, abc"):
            diagnosed()
        self.record(run_dir, classifier={"num_folds": 0})
        with pytest.raises(ValueError, match="has one classifier, fitted on all"):
            diagnosed()
        with pytest.raises(ValueError, match="There is no classifier in"):
            second_look.diagnose_looks(model_dir, Blocks(), classifiers=str(tmp_path / "none"))
