"""Comparisons of methods: what is trained, what is shared, and the table that comes out."""

import csv
import io
import json
import os

import numpy as np
import pytest

from gc_net.datasets import open_dataset
from gc_net.experiments import rivals, rivals_gallery, rivals_table
from gc_net.experiments.published import PUBLISHED, published
from gc_net.experiments.sweep import changed
from gc_net.figures import drawing
from gc_net.figures.contact_sheet import classes_in_turn
from gc_net.methods import METHODS
from gc_net.stages import runner
from gc_net.stages.config import DataConfig, NetworkConfig, RunOptions, TrainConfig
from gc_net.stages.run_folder import make_folder, write_json, write_settings
from tests.training.samples import run_tool, small_config, small_options

CONFIG = TrainConfig(
    data=DataConfig(dataset="creatures", dataset_options="num_train=8,num_test=4"),
    network=NetworkConfig(backbone="tiny"),
)
SHARED = {"dataset": "cub", "split": "test", "num_images": 10}


def scored(corloc, **more):
    return {"loc_err_top1": 100 - corloc, "corloc": corloc, "max_box_acc_v2": corloc, **more}


@pytest.fixture
def done(monkeypatch):
    """Put quick stand-ins in place of training and evaluation; return what was asked of them."""
    asked = []

    def train(config, options):
        run = os.path.relpath(options.work_dir, os.path.dirname(os.path.dirname(options.work_dir)))
        asked.append(("train", run, config.classifier.method))
        write_settings(options.work_dir, config.resolved().to_dict())
        return os.path.join(options.work_dir, "model")

    def run_evaluation(model_dir, dataset, output_dir, methods, **options):
        with open(os.path.join(os.path.dirname(model_dir), "config.json")) as file:
            config = json.load(file)["config"]
        own, seed = config["classifier"]["method"], config["seed"]
        asked.append(("evaluate", own, list(methods)))
        others = {}
        for name in {*methods, own} & {"cam", "has"}:
            for place, kind in enumerate(("fixed", "chosen", "best")):
                found = scored(40.0 + 10 * place + seed, title=name, tuned=kind == "best")
                if (name, kind) != (own, "fixed"):
                    others[f"{name}_{kind}"] = found
        if "ddt" in methods:
            others["ddt"] = scored(35.0, title="DDT", tuned=False)
        measured = ("protocol", "split", "ten_crop", "limit", "level_teacher")
        metrics = {
            **SHARED,
            **{name: options[name] for name in measured},
            **scored(45.0 + seed if own == "has" else 80.0 + seed, cls_err_top1=20.0),
            "settings": {"backbone": "vgg16", **({} if own == "gc_net" else {"method": own})},
            "methods": others,
        }
        make_folder(output_dir)
        write_json(os.path.join(output_dir, "metrics.json"), metrics)
        write_json(os.path.join(output_dir, "predictions.json"), {"split": "test", "images": []})
        return metrics

    monkeypatch.setattr(runner, "train", train)
    monkeypatch.setattr("gc_net.evaluation.evaluate.run_evaluation", run_evaluation)
    return asked


def cells(table):
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line]


class TestRuns:
    def test_methods_that_train_nothing_share_one_classifier_and_others_have_their_own(
        self, done, tmp_path
    ):
        options = RunOptions(work_dir=str(tmp_path))
        rivals.run_comparison(CONFIG, options, ["has", "cam", "gc_net", "ddt"], seeds=(0, 1))
        trained = [(run, method) for what, run, method in done if what == "train"]
        assert trained == [
            (f"{run}/seed{seed}", method)
            for seed in (0, 1)
            for run, method in (
                ("plain_classifier", "grad_cam"),
                ("has", "has"),
                ("gc_net", "gc_net"),
            )
        ]
        evaluated = [(own, others) for what, own, others in done if what == "evaluate"][:3]
        assert evaluated == [("grad_cam", ["cam", "ddt"]), ("has", []), ("gc_net", [])]

    def test_what_is_done_is_not_repeated_and_a_new_method_is_measured_alone(self, done, tmp_path):
        options = RunOptions(work_dir=str(tmp_path))
        first = rivals.run_comparison(CONFIG, options, ["cam", "gc_net"])
        count = len(done)
        assert rivals.run_comparison(CONFIG, options, ["cam", "gc_net"]) == first
        assert len(done) == count
        rivals.run_comparison(CONFIG, options, ["cam", "ddt", "gc_net"])
        assert done[count:] == [("evaluate", "grad_cam", ["cam", "ddt"])]
        rivals.run_comparison(CONFIG, options, ["cam", "gc_net"], level_teacher=None)
        assert [what for what, _, _ in done[count + 1 :]] == ["evaluate", "evaluate"]

    @pytest.mark.parametrize(("names", "told"), [(["cam", "camera"], "camera"), ([], "none")])
    def test_an_unknown_method_is_refused_with_the_known_ones(self, done, tmp_path, names, told):
        with pytest.raises(ValueError, match=rf"acol.*gc_net_plain, psol\. Received: {told}"):
            rivals.run_comparison(CONFIG, RunOptions(work_dir=str(tmp_path)), names)
        assert not done

    def test_a_network_that_a_method_does_not_allow_is_refused_before_the_first_run(
        self, done, tmp_path
    ):
        config = changed(CONFIG, {"backbone": "vgg16", "image_size": 32})
        with pytest.raises(ValueError, match="'cam' cannot be used: class activation maps need"):
            rivals.run_comparison(config, RunOptions(work_dir=str(tmp_path)), ["gc_net", "cam"])
        assert not done

    @pytest.mark.parametrize("weights", ["imagenet", "none"])
    @pytest.mark.parametrize("name", ["gc_net_plain", "psol"])
    def test_presets_are_settings_that_fit_together(self, name, weights):
        config = TrainConfig(network=NetworkConfig(weights=weights))
        config = changed(config, {"detector_head": "edges", "second_look": 1.0, "warmup_epochs": 2})
        found = changed(config, rivals.presets(config)[name])
        assert found.second_look == 0 and found.resolved() is not None
        if name == "psol":
            assert found.detector.epochs == 0 and found.warmup.epochs == config.classifier.epochs
            own = ":weights=classifier" if weights == "none" else ""
            assert found.warmup.teacher == f"descriptors{own}"
        else:
            assert found.warmup.epochs == 0 and found.detector.epochs == config.classifier.epochs


class TestTable:
    @pytest.fixture
    def table(self, done, tmp_path):
        names = ["cam", "has", "ddt", "gc_net"]
        text = rivals.run_comparison(CONFIG, RunOptions(work_dir=str(tmp_path)), names, (0, 2))
        return tmp_path, text

    def test_has_a_row_for_each_threshold_and_none_for_what_needs_none(self, table):
        head, _, *rows = cells(table[1])
        assert head[:2] == ["Method", "Threshold"]
        assert head[-3:] == ["published LocErr top-1", "published CorLoc", "published with"]
        place = head.index("CorLoc")
        found = [(row[0], row[1], row[place]) for row in rows]
        thresholds = ("its authors'", "chosen without boxes", "by the test boxes *")
        assert found[:6] == [
            *zip(
                ["CAM"] * 3,
                thresholds,
                ["41.00 ± 1.41", "51.00 ± 1.41", "61.00 ± 1.41"],
                strict=True,
            ),
            *zip(
                ["HaS"] * 3,
                thresholds,
                ["46.00 ± 1.41", "51.00 ± 1.41", "61.00 ± 1.41"],
                strict=True,
            ),
        ]
        assert found[6] == ("DDT", "–", "35.00 ± 0.00")
        assert found[7] == ("GC-Net", "–", "**81.00** ± 1.41")

    def test_published_figures_stand_beside_and_alone(self, table):
        rows = {(row[0], row[1]): row[-3:] for row in cells(table[1])[2:]}
        assert rows["CAM", "its authors'"] == ["55.85", "56.00", "VGG16, Lu et al. 2020"]
        assert rows["CAM", "by the test boxes *"] == ["–", "–", "–"]
        assert rows["TSC", "–"] == ["–", "65.50", "VGG16, Lu et al. 2020"]
        assert rows["Friend or Foe", "–"][1] == "56.50"
        assert rows["HaS", "its authors'"] == ["–"] * 3  # none for CUB

    def test_is_written_for_people_and_for_programs(self, table):
        folder, text = table
        assert (folder / "comparison.md").read_text() == text
        assert r"\begin{tabular}" in (folder / "comparison.tex").read_text()
        records = json.loads((folder / "comparison.json").read_text())
        ours = next(record for record in records if record["method"] == "gc_net")
        assert ours["seeds"] == [0, 2] and ours["corloc"]["values"] == [80.0, 82.0]
        assert ours["published"]["corloc"] == 81.1
        lines = list(csv.DictReader(io.StringIO((folder / "comparison.csv").read_text())))
        assert len(lines) == len(records) == 10
        assert float(lines[0]["corloc_mean"]) == 41.0 and lines[0]["seeds"] == "0 2"
        assert lines[-1]["method"] == "friend_or_foe" and lines[-1]["corloc_mean"] == ""


class TestPublished:
    def test_are_of_known_methods_and_percentages(self):
        for rows in PUBLISHED.values():
            assert set(rows) <= {*METHODS, *rivals_table.TITLES, "tsc", "friend_or_foe"}
            for row in (row for found in rows.values() for row in found):
                assert all(0 < value < 100 for value in row[1:-1] if value is not None)

    def test_the_same_backbone_comes_first(self):
        assert published("cub", "cam", "googlenet").corloc == 55.1
        assert published("cub", "cam", "efficientnet_lite0").network == "VGG16"
        assert published("ilsvrc", "danet", "inception_v3").loc_err_top1 == 52.47
        assert published("creatures", "cam") is None


class TestGallery:
    def test_has_a_row_an_image_and_a_column_a_method(self, tmp_path, monkeypatch):
        data = DataConfig(dataset="creatures", dataset_options="num_test=4,image_size=40")
        split = open_dataset(data).split("test")
        images = [
            {
                "file": split.file(index),
                "box_xyxy": [4, 4, 20, 20],
                "truth_boxes_xyxy": [[4, 4, 20, 20]],
                "method_boxes_xyxy": {"cam": [14, 14, 30, 26]},
            }
            for index in range(3)
        ]
        path = tmp_path / "predictions.json"
        path.write_text(json.dumps({"split": "test", "images": images}))
        sources = {"GC-Net": (path, "gc_net"), "CAM": (path, "cam")}
        drawn = []
        monkeypatch.setattr(rivals_gallery, "save_picture", lambda _, sheet: drawn.append(sheet))
        rivals_gallery.write_gallery(tmp_path, data, sources, cell=80)
        (sheet,) = drawn
        assert sheet.shape == (3 * (80 + 26 + 10) + 10, 2 * (80 + 10) + 10, 3)
        # The first method's box is the true one; the second's is apart from it.
        order = classes_in_turn(split.labels[:3], 3)
        height, width = split.read(int(order[0])).shape[:2]
        scale = 80 / max(height, width)
        for left, box in ((10, [4, 4, 20, 20]), (100, [14, 14, 30, 26])):
            cell = sheet[10:90, left : left + 80]
            rows, columns = np.nonzero((cell == drawing.BLUE).all(axis=-1))
            across = (80 - round(width * scale)) // 2  # centred
            down = 80 - round(height * scale)  # at the bottom
            found = [columns.min() - across, rows.min() - down]
            found += [columns.max() + 1 - across, rows.max() + 1 - down]
            np.testing.assert_allclose(found, np.array(box) * scale, atol=1)

    def test_without_common_images_there_is_none(self, tmp_path):
        path = tmp_path / "predictions.json"
        path.write_text(json.dumps({"split": "test", "images": []}))
        sources = {"CAM": (path, "cam")}
        assert rivals_gallery.write_gallery(tmp_path, CONFIG.data, sources) is None


class TestTool:
    def test_takes_runs_or_methods_to_train(self):
        ended = run_tool("compare", "runs/a", "--methods=cam,has")
        assert ended.returncode == 1
        assert "Received both: runs/a and --methods=cam,has." in ended.stderr


@pytest.mark.slow
def test_a_real_comparison_ends_with_a_table_a_gallery_and_is_resumed(tmp_path, monkeypatch):
    config, options = small_config(seed=0), small_options(tmp_path)
    names = ["cam", "saliency", "acol", "psol", "gc_net", "gc_net_plain"]
    text = rivals.run_comparison(config, options, names)
    titles = [row[0] for row in cells(text)[2:]]
    assert titles == [
        *(["CAM"] * 3),
        *(["Gradient saliency"] * 3),
        *(["ACoL"] * 3),
        "PSOL",
        "GC-Net",
        "GC-Net, the paper's losses alone",
    ]
    # Their classifier is that of the methods that train none.
    for name in ("psol", "gc_net", "gc_net_plain"):
        assert not (tmp_path / name / "seed0" / "classifier").exists()
    assert (tmp_path / "acol" / "seed0" / "evaluation" / "report.html").exists()
    assert (tmp_path / "gallery.jpg").exists()
    assert list(tmp_path.glob("pseudo_boxes_*.npz"))
    monkeypatch.setattr(runner, "train", None)  # which would fail if it were called
    assert rivals.run_comparison(config, options, names) == text
