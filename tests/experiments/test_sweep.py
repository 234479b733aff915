"""Sweeps: what is run, what is shared, what is not repeated, and what comes out."""

import dataclasses
import json
import os

import pytest

from gc_net.experiments import sweep
from gc_net.settings import read_pairs
from gc_net.stages import runner
from gc_net.stages.classifier import ClassifierConfig
from gc_net.stages.config import DataConfig, NetworkConfig, RunOptions, TrainConfig
from gc_net.stages.detector import DetectorConfig
from gc_net.stages.run_folder import RunError, make_folder, write_json, write_settings


class Done(list):
    """What was done: (variant, "training" or "evaluation").

    `caches` are those of the evaluations, `reused` the folders that trainings were given.
    """

    def __init__(self):
        super().__init__()
        self.caches, self.reused = [], []


@pytest.fixture
def runs(monkeypatch):
    """Put quick stand-ins in place of training and evaluation; return what was asked of them."""
    done = Done()

    def train(config, options):
        done.append((os.path.basename(os.path.dirname(options.work_dir)), "training"))
        done.reused.append(options.reuse.split(","))
        write_settings(options.work_dir, config.resolved().to_dict())
        return os.path.join(options.work_dir, "model")

    def run_evaluation(model_dir, dataset, output_dir, **options):
        with open(os.path.join(os.path.dirname(model_dir), "config.json")) as file:
            config = json.load(file)["config"]
        given = read_pairs(config["detector"]["loss_weights"], "loss_weights")
        weights = {**dict.fromkeys(("area", "object", "background"), 1.0), **given}
        done.append((os.path.basename(os.path.dirname(os.path.dirname(model_dir))), "evaluation"))
        done.caches.append(options["cache"])
        metrics = {
            **{name: options[name] for name in ("protocol", "split", "ten_crop", "limit")},
            "num_images": options["limit"] or 10,
            "corloc": 50.0 + config["seed"] + 10 * weights["area"],
            "settings": {"loss_weights": weights, "shape": "rectangle"},
        }
        make_folder(output_dir)
        write_json(os.path.join(output_dir, "metrics.json"), metrics)
        return metrics

    monkeypatch.setattr(runner, "train", train)
    monkeypatch.setattr("gc_net.evaluation.evaluate.run_evaluation", run_evaluation)
    return done


CONFIG = TrainConfig(data=DataConfig(dataset="creatures", dataset_options="num_train=8,num_test=4"))
VARIANTS = {"small": {"loss_weights": "area=2"}, "large": {"loss_weights": "area=0.5"}}


class TestSweep:
    def test_runs_every_variant_with_every_seed(self, runs, tmp_path):
        table = sweep.run_sweep(CONFIG, RunOptions(work_dir=str(tmp_path)), VARIANTS, seeds=(3, 5))
        trained = [name for name, what in runs if what == "training"]
        assert trained == ["small", "large", "small", "large"]
        # 50 + 10 · 2 + the seeds 3 and 5
        assert "| small | **74.00** ± 1.41 |" in table
        assert "| large | 59.00 ± 1.41 |" in table
        record = json.loads((tmp_path / "sweep.json").read_text())
        assert record["small"]["seeds"] == [3, 5]
        assert record["small"]["corloc"]["mean"] == 74.0
        assert (tmp_path / "table.md").read_text().strip() == table
        assert r"\toprule" in (tmp_path / "table.tex").read_text()

    def test_has_each_run_reuse_what_the_others_have_done(self, runs, tmp_path):
        options = RunOptions(work_dir=str(tmp_path), reuse="elsewhere")
        sweep.run_sweep(CONFIG, options, VARIANTS)
        small, large = (str(tmp_path / name / "seed0") for name in VARIANTS)
        assert runs.reused == [["elsewhere", large], ["elsewhere", small]]

    def test_does_not_repeat_what_is_done(self, runs, tmp_path):
        options = RunOptions(work_dir=str(tmp_path))
        first = sweep.run_sweep(CONFIG, options, VARIANTS)
        count = len(runs)
        assert sweep.run_sweep(CONFIG, options, VARIANTS) == first
        assert len(runs) == count
        os.remove(tmp_path / "large" / "seed0" / "evaluation" / "metrics.json")
        assert sweep.run_sweep(CONFIG, options, VARIANTS) == first
        assert [name for name, what in runs[count:] if what == "training"] == ["large"]

    @pytest.mark.parametrize(
        "other", [{"protocol": "full"}, {"split": "train"}, {"ten_crop": True}, {"limit": None}]
    )
    def test_measured_otherwise_is_measured_again_and_not_trained_again(
        self, runs, tmp_path, other
    ):
        options = RunOptions(work_dir=str(tmp_path))
        sweep.run_sweep(CONFIG, options, VARIANTS, limit=5)
        count = len(runs)
        asked = {"limit": 5, **other}
        sweep.run_sweep(CONFIG, options, VARIANTS, **asked)
        assert runs[count:] == [("small", "evaluation"), ("large", "evaluation")]
        for variant in VARIANTS:
            path = tmp_path / variant / "seed0" / "evaluation" / "metrics.json"
            assert json.loads(path.read_text())["num_images"] == (asked["limit"] or 10)
        sweep.run_sweep(CONFIG, options, VARIANTS, **asked)
        assert len(runs) == count + 2

    def test_measures_again_where_a_file_does_not_say_how_many_images_it_is_of(
        self, runs, tmp_path
    ):
        options = RunOptions(work_dir=str(tmp_path))
        sweep.run_sweep(CONFIG, options, VARIANTS)
        path = tmp_path / "large" / "seed0" / "evaluation" / "metrics.json"
        metrics = json.loads(path.read_text())
        del metrics["limit"]
        path.write_text(json.dumps(metrics))
        count = len(runs)
        sweep.run_sweep(CONFIG, options, VARIANTS)
        assert runs[count:] == [("large", "evaluation")]

    def test_without_seeds_takes_that_of_the_settings(self, runs, tmp_path):
        config = dataclasses.replace(CONFIG, seed=4)
        sweep.run_sweep(config, RunOptions(work_dir=str(tmp_path)), VARIANTS)
        assert os.listdir(tmp_path / "small") == ["seed4"]
        record = json.loads((tmp_path / "small" / "seed4" / "config.json").read_text())
        assert record["config"]["seed"] == 4

    @pytest.mark.parametrize(
        ("asked", "found"), [("auto", "{folder}/cache"), ("none", None), ("mine", "mine")]
    )
    def test_evaluates_with_the_cache_of_decoded_images_that_was_asked_for(
        self, runs, tmp_path, asked, found
    ):
        options = RunOptions(work_dir=str(tmp_path), cache_dir=asked)
        sweep.run_sweep(CONFIG, options, VARIANTS)
        assert runs.caches == [found and found.format(folder=tmp_path)] * 2

    def test_refuses_to_vary_the_seed_and_names_the_flag_that_does(self, runs, tmp_path):
        variants = sweep.grid({"seed": ["1", "2"]})
        with pytest.raises(ValueError, match=r"`seed` cannot be varied.*--seeds"):
            sweep.run_sweep(CONFIG, RunOptions(work_dir=str(tmp_path)), variants)
        assert not runs

    def test_refuses_a_folder_of_other_settings(self, runs, tmp_path):
        options = RunOptions(work_dir=str(tmp_path))
        sweep.run_sweep(CONFIG, options, VARIANTS)
        with pytest.raises(RunError, match=r"(?s)other .*loss_weights\.area: 2 there, 7 now"):
            sweep.run_sweep(CONFIG, options, {"small": {"loss_weights": "area=7"}})

    def test_finds_a_mistake_in_the_last_variant_before_the_first_run(self, runs, tmp_path):
        variants = {**VARIANTS, "wrong": {"detector_shape": "circle"}}
        with pytest.raises(ValueError, match="`shape` must be one of"):
            sweep.run_sweep(CONFIG, RunOptions(work_dir=str(tmp_path)), variants)
        assert not runs

    def test_of_the_losses_has_the_papers_four_rows(self, runs, tmp_path):
        options = RunOptions(work_dir=str(tmp_path))
        table = sweep.run_sweep(CONFIG, options, "losses", form="losses")
        labels = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
        assert [label.replace("<sub>", "").replace("</sub>", "") for label in labels] == [
            "Lo",
            "La + Lo",
            "Lo + Lb",
            "La + Lo + Lb",
        ]


class TestChanges:
    @pytest.mark.parametrize(
        ("name", "value", "found"),
        [
            ("loss_weights", "area=2.5", lambda config: config.detector.weights() == {"area": 2.5}),
            ("detector_steps", "90", lambda config: config.detector.steps == 90),
            ("detector_steps", "none", lambda config: config.detector.steps is None),
            ("second_look", "1.5", lambda config: config.second_look == 1.5),
            ("classifier_epochs", "3", lambda config: config.classifier.epochs == 3),
            ("generator_steps", 7, lambda config: config.generator.steps == 7),
            ("backbone", "tiny", lambda config: config.network.backbone == "tiny"),
            ("image_size", "96", lambda config: config.data.image_size == 96),
            ("seed", "4", lambda config: config.seed == 4),
            ("deterministic", "true", lambda config: config.deterministic is True),
        ],
    )
    def test_reach_the_setting_of_that_name(self, name, value, found):
        base = sweep.changed(TrainConfig(), {"detector_steps": 7})
        assert found(sweep.changed(base, {name: value}))

    def test_of_loss_weights_leave_those_that_are_not_named(self):
        base = sweep.changed(TrainConfig(), {"loss_weights": "area=2,object=1,background=3"})
        weights = sweep.changed(base, sweep.LOSSES["object_area"]).detector.weights()
        assert weights == {"area": 2, "object": 1, "background": 0}

    def test_of_an_unknown_setting_list_the_known_ones(self):
        with pytest.raises(ValueError, match=r"no setting 'alpha'.*loss_weights"):
            sweep.changed(TrainConfig(), {"alpha": 1})

    def test_of_another_type_are_refused(self):
        with pytest.raises(ValueError, match="classifier_epochs must be of type int"):
            sweep.changed(TrainConfig(), {"classifier_epochs": "many"})

    def test_a_grid_has_all_combinations(self):
        variants = sweep.grid({"detector_shape": ["a", "b"], "classifier_epochs": [0, 1, 2]})
        assert len(variants) == 6
        assert variants["detector_shape-b_classifier_epochs-2"] == {
            "detector_shape": "b",
            "classifier_epochs": 2,
        }


@pytest.mark.slow
def test_a_real_sweep_trains_evaluates_and_ends_with_a_table(tmp_path):
    config = TrainConfig(
        data=DataConfig(
            dataset="creatures",
            dataset_options="num_train=16,num_test=8,num_classes=2,image_size=64",
            image_size=32,
        ),
        network=NetworkConfig(backbone="tiny", weights="none"),
        classifier=ClassifierConfig(epochs=1, batch_size=8),
        detector=DetectorConfig(epochs=1, batch_size=8),
    )
    options = RunOptions(work_dir=str(tmp_path), devices="one", tensorboard=False, verbose=0)
    variants = {"rectangle": {"detector_shape": "rectangle"}, "turned": {}}
    table = sweep.run_sweep(config, options, variants, form="geometries")
    assert "| Model-driven | Rectangle | × |" in table
    assert "| Model-driven | Rotated rectangle | ✓ |" in table
    # The second run has taken the classifier of the first.
    assert (tmp_path / "rectangle" / "seed0" / "classifier").exists()
    assert not (tmp_path / "turned" / "seed0" / "classifier").exists()
