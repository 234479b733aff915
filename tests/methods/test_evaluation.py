"""Evaluation of what `--method` has trained: a classifier, measured by its method's boxes."""

import json

import numpy as np
import pytest

from gc_net.evaluation.evaluate import evaluate, evaluate_run, run_evaluation
from gc_net.localizer import Localizer
from gc_net.methods.localizer import MethodLocalizer, load
from gc_net.saving import save_model
from gc_net.training_record import TrainingRecord
from tests.evaluation.models import CLASS_NAMES, Blocks, Masked, localizer_of
from tests.evaluation.test_evaluate import looking_model
from tests.evaluation.test_protocols import step_by_step_boxes

RESIZE = 37


@pytest.fixture(scope="module")
def model():
    return looking_model()


def method_of(model, name="saliency"):
    return MethodLocalizer(model.classifier, name, CLASS_NAMES, resize_size=RESIZE)


def saved(folder, classifier, name, **data):
    """Write a classifier as a run of `--method=name` does; return the folder of its model."""
    record = TrainingRecord({"classifier": {"method": name}, "data": data})
    save_model(folder / "model", classifier, CLASS_NAMES, record)
    return folder / "model"


class TestNumbers:
    def test_are_those_of_the_method_on_a_localizer_with_the_same_classifier(self, model):
        ours = evaluate(localizer_of(model), Masked(), methods=["saliency"])
        own = evaluate(method_of(model), Masked(), methods=[])
        fixed = ours.metrics["methods"]["saliency_fixed"]
        for name in ("loc_err_top1", "corloc", "mean_iou", "max_box_acc_v2"):
            assert own.metrics[name] == fixed[name]
            assert own.metrics[f"{name}_ci95"] == fixed[f"{name}_ci95"]
        assert own.metrics["cls_err_top1"] == ours.metrics["cls_err_top1"]
        assert own.metrics["methods"] == {"saliency_best": ours.metrics["methods"]["saliency_best"]}
        assert own.title == own.metrics["title"] == fixed["title"]
        assert own.metrics["settings"]["method"] == "saliency"
        assert 0 < own.metrics["mask_iou"] < 100

    def test_boxes_are_those_that_were_measured(self, model):
        own = evaluate(method_of(model), Blocks(), methods=[])
        boxes = own.boxes_rel_xyxy
        np.testing.assert_allclose(own.method_boxes_rel_xyxy["saliency"], boxes, atol=1e-6)
        truth = own.truth_boxes_rel_xyxy[:, 0]
        low = np.maximum(boxes[:, :2], truth[:, :2])
        high = np.minimum(boxes[:, 2:], truth[:, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        areas = [np.prod(each[:, 2:] - each[:, :2], axis=1) for each in (boxes, truth)]
        np.testing.assert_allclose(own.iou, shared / (sum(areas) - shared), atol=1e-5)
        assert len(np.unique(boxes.round(3), axis=0)) > 1

    def test_of_a_method_without_maps(self, model):
        own = evaluate(method_of(model, "constant"), Blocks())
        half = 0.5 - np.sqrt(0.5) / 2
        np.testing.assert_allclose(own.boxes_rel_xyxy[4], [half, half, 1 - half, 1 - half], 1e-5)
        assert own.title.startswith("Centred box, half the area")
        assert list(own.methods) == ["constant_best"]

    def test_stand_beside_centred_boxes_and_no_rival_that_was_not_trained_for(self, model):
        own = evaluate(method_of(model), Blocks())
        assert list(own.methods) == ["saliency_best", "constant_fixed", "constant_best"]

    def test_without_boxes_the_classes_are_measured_and_boxes_are_there(self, model):
        own = evaluate(method_of(model), Blocks(boxes=False))
        assert "cls_err_top1" in own.metrics and "corloc" not in own.metrics
        assert np.isfinite(own.boxes_rel_xyxy).all() and own.methods == {}

    def test_a_second_look_is_refused(self, model):
        with pytest.raises(ValueError, match="'saliency' has no second look"):
            evaluate(method_of(model), Blocks(), second_look=1.0)


class TestFiles:
    @pytest.fixture(scope="class")
    def output(self, model, tmp_path_factory):
        folder = tmp_path_factory.mktemp("run")
        metrics = run_evaluation(
            saved(folder, model.classifier, "saliency"),
            Blocks(bad=(1,)),
            folder / "evaluation",
            protocol="wsoleval",
            score_maps=True,
            agreement=True,  # of which a method has none
        )
        return folder / "evaluation", metrics

    def test_are_those_of_every_evaluation(self, output):
        folder, metrics = output
        assert json.loads((folder / "metrics.json").read_text()) == json.loads(json.dumps(metrics))
        assert "agreement" not in metrics and "confidence" not in metrics
        page = (folder / "report.html").read_text()
        assert "<title>Gradient saliency, cut at 0.2 on" in page and "gc-net predict" not in page
        record = json.loads((folder / "predictions.json").read_text())["images"][0]
        assert record["method_boxes_xyxy"]["saliency"] == pytest.approx(
            record["box_xyxy"], abs=0.02
        )
        assert set(record["method_boxes_xyxy"]) == {"saliency", "constant"}

    def test_score_maps_give_the_best_figure_when_followed_step_by_step(self, output):
        folder, metrics = output
        lists = folder / "wsoleval" / "metadata" / "CUB" / "test"
        files = (lists / "image_ids.txt").read_text().split()
        boxes = [line.split(",")[1:] for line in (lists / "localization.txt").read_text().split()]
        scale = np.array([60, 40, 60, 40])
        hits = np.zeros((len(files), 255, 4))
        for row, file in enumerate(files):
            score_map = np.load(folder / "wsoleval" / "scoremaps" / f"{file}.npy")
            assert score_map.dtype == np.float32 and score_map.shape == (224, 224)
            assert score_map.min() >= 0 and score_map.max() == 1
            truth = (np.array(boxes[row], int) * 224 / scale).astype(int)
            for cut in range(255):
                largest, best = step_by_step_boxes(score_map, (cut + 0.5) / 255, [truth])
                hits[row, cut] = largest >= 0.5, best >= 0.3, best >= 0.5, best >= 0.7
        highest = 100 * hits.mean(axis=0).max(axis=0)
        best = metrics["methods"]["saliency_best"]
        assert best["corloc"] == pytest.approx(highest[0], abs=1e-3)
        assert best["max_box_acc_v2"] == pytest.approx(highest[1:].mean(), abs=1e-3)
        assert 0 < best["max_box_acc_v2"] < 100


class TestModels:
    def test_say_what_they_are_to_what_needs_a_detector(self, model, tmp_path):
        folder = saved(tmp_path, model.classifier, "acol")
        with pytest.raises(ValueError, match=r"method 'acol' and has no detector. `gc-net evaluat"):
            Localizer.load(folder)

    def test_are_squashed_as_in_training(self, model, tmp_path):
        assert load(saved(tmp_path / "a", model.classifier, "cam", resize_size=0)).resize_size == 37
        assert (
            load(saved(tmp_path / "b", model.classifier, "cam", resize_size=48)).resize_size == 48
        )
        with pytest.raises(ValueError, match="`resize_size` must be a whole number"):
            load(saved(tmp_path / "c", model.classifier, "cam", resize_size=1 << 40))

    def test_name_the_known_methods_where_theirs_is_not(self, model, tmp_path):
        with pytest.raises(ValueError, match=r"has_2.*cutmix"):
            load(saved(tmp_path, model.classifier, "has_2"))

    def test_a_run_without_test_images_ends_well(self, model, tmp_path, capsys):
        evaluate_run(saved(tmp_path, model.classifier, "cam"), Blocks(num_test=0))
        assert "no test images" in capsys.readouterr().out
