"""The warm-up: its targets, where windows put them, and that the detector learns them."""

import dataclasses
import functools
import json
import shutil
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import gc_net
from gc_net import shapes, teachers
from gc_net.data import transforms
from gc_net.detector import Detector
from gc_net.metrics import box_iou
from gc_net.saving import load_model
from gc_net.shapes.base import Shape
from gc_net.stages import runner, warmup
from gc_net.stages.run_folder import RunError
from gc_net.stages.runner import Runner
from gc_net.stages.stage_run import StageRun
from gc_net.stages.warmup import WarmupConfig
from gc_net.teachers import targets
from gc_net.training.callbacks import HealthCheck, read_log
from gc_net.training.edge_matching import EdgeMatching
from gc_net.training.shape_matching import ShapeMatching
from tests.training.samples import assert_same_weights, small_config, small_options, stopped_before

TEACHER = "descriptors:weights=classifier:image_size=64"
SETTINGS = WarmupConfig(epochs=3, batch_size=6, teacher=TEACHER)


def config(shape="rotated_ellipse", **changes):
    settings = dataclasses.replace(SETTINGS, **changes)
    return dataclasses.replace(small_config(detector={"shape": shape}), warmup=settings)


@pytest.mark.parametrize("shape", shapes.SHAPES.names)
@pytest.mark.parametrize("flip", [0, 1])
@pytest.mark.parametrize("height, width", [(100, 100), (80, 80), (70, 110)])
def test_a_shape_is_put_where_the_window_shows_it(shape, flip, height, width):
    shape = shapes.get(shape)
    coefficients = np.array([[0.45, 0.55, 0.4, 0.25, 0.5]], np.float32)
    coefficients = coefficients[:, : shape.num_coefficients]
    resize_size, image_size, top, left = 160, 100, 40, 25
    whole = np.asarray(shape.masks(coefficients, resize_size, resize_size))[0]
    seen = transforms.take(
        255 * np.repeat(whole, 3, axis=-1).astype(np.uint8),
        transforms.Window(top, left, bool(flip), height, width),
        image_size,
    )[..., 0]
    rows = [[top, left, flip, height, width]]
    placed = Shape.in_windows(coefficients, rows, resize_size)
    drawn = np.asarray(shape.masks(placed, image_size, image_size))[0, ..., 0]
    # Pixels whose centre lies on the border may fall to either side; a rectangle that is turned and
    # stretched is none any more.
    skewed = shape.name == "rotated_rectangle" and height != width
    resized = (height, width) != (image_size, image_size)
    assert np.mean(drawn != (seen > 127)) < (0.1 if skewed else 0.01 if resized else 2e-3)
    assert seen.any()


def test_shapes_without_a_place_stay_without_one():
    nothing = np.full((2, 5), np.nan, np.float32)
    rows = [[0, 0, 1, 90, 100], [5, 5, 0, 100, 100]]
    assert np.isnan(Shape.in_windows(nothing, rows, 120)).all()


def shown_targets(work_dir, name="coefficients"):
    with np.load(work_dir / "warmup" / "targets.npz", allow_pickle=False) as file:
        return file[name]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    work_dir = tmp_path_factory.mktemp("warmup")
    runner.train(config(), small_options(work_dir))
    return work_dir


def test_the_warm_up_is_a_stage_with_a_log_targets_and_a_detector(finished):
    assert len(read_log(finished / "warmup" / "log.csv")) == SETTINGS.epochs
    shown = shown_targets(finished)
    assert shown.shape == (26, 5)
    found = shown[np.isfinite(shown[:, 0])]
    assert len(found) and (found[:, :2] > 0).all() and (found[:, :2] < 1).all()
    assert isinstance(load_model(finished / "warmup" / "model").model, Detector)
    assert not list(finished.glob("**/checkpoints"))


def test_descriptors_can_show_upright_shapes_to_a_detector_of_rotated_ones(finished, tmp_path):
    upright = config("rotated_rectangle", teacher=f"{TEACHER}:upright=true", epochs=1)
    runner.train(upright, small_options(tmp_path, reuse=str(finished)), stages=("warmup",))
    shown, turned = shown_targets(tmp_path), shown_targets(finished)
    assert not np.nan_to_num(shown[:, 4]).any()
    assert np.nan_to_num(turned[:, 4]).any()  # without, they have the angles of the maps
    np.testing.assert_array_equal(np.isnan(shown), np.isnan(turned))


def test_silhouettes_are_tighter_than_the_maps_that_found_them(finished, tmp_path):
    cut = config(teacher=TEACHER.replace("descriptors", "silhouettes"), epochs=1)
    runner.train(cut, small_options(tmp_path, reuse=str(finished)), stages=("warmup",))
    shown, coarse = shown_targets(tmp_path), shown_targets(finished)
    np.testing.assert_array_equal(np.isnan(shown), np.isnan(coarse))
    areas = [np.nanmean(found[:, 2] * found[:, 3]) for found in (shown, coarse)]
    assert areas[0] < areas[1]


def test_the_detector_stage_begins_with_the_warmed_up_detector(finished, tmp_path, monkeypatch):
    started, watched = [], []

    def remember(model, *args, callbacks, **kwargs):
        started.append([np.array(weight) for weight in model.detector.get_weights()])
        watched.extend(callbacks)

    other = dataclasses.replace(config().detector, loss_weights="area=5")
    other = dataclasses.replace(config(), detector=other)
    monkeypatch.setattr(runner.loop, "train", remember)
    runner.train(other, small_options(tmp_path, reuse=str(finished)))
    warm = load_model(finished / "warmup" / "model").model
    for before, after in zip(warm.get_weights(), started[0], strict=True):
        np.testing.assert_array_equal(before, after)
    (health,) = (callback for callback in watched if isinstance(callback, HealthCheck))
    assert not health.fresh


def test_damaged_targets_are_found_anew(finished, tmp_path, capsys):
    with Runner(config(), small_options(finished)) as run:
        stage_run = StageRun(run, run.units["warmup"])
        lesson = warmup._lesson(stage_run, stage_run.load("classifier"))
        path = tmp_path / "targets.npz"
        arguments = (teachers.get(TEACHER), lesson, str(path))
        expected = targets.find_targets(*arguments)
        path.write_bytes(path.read_bytes()[:-40])
        for found in (targets.find_targets(*arguments), expected):
            np.testing.assert_array_equal(found.coefficients, expected.coefficients)
            np.testing.assert_array_equal(found.weights, expected.weights)
        assert f"{path} is damaged" in capsys.readouterr().err
        np.testing.assert_array_equal(targets.find_targets(*arguments).weights, expected.weights)
        assert not capsys.readouterr().err


@pytest.mark.parametrize("last", [1, 6])  # before there is a checkpoint, and after
def test_a_warm_up_that_was_stopped_ends_with_the_same_weights(
    finished, tmp_path, monkeypatch, last
):
    class Stopped(Exception):
        pass

    steps = []

    def stopping(model):
        take_step = original(model)

        def step(iterator):
            steps.append(model.name)
            if steps.count("shape_matching") == last:
                raise Stopped
            return take_step(iterator)

        return step

    original = runner.loop.distributed_step
    run = stopped_before(finished, tmp_path / "run", "warmup", "detector")
    with monkeypatch.context() as patch:
        patch.setattr(runner.loop, "distributed_step", stopping)
        with pytest.raises(Stopped):
            runner.train(config(), small_options(run), ["warmup"])
    runner.train(config(), small_options(run), ["warmup"])
    assert_same_weights(run / "warmup" / "model", finished / "warmup" / "model")


@pytest.mark.parametrize("shape", shapes.SHAPES.names)
def test_a_detector_learns_the_shapes_it_is_given(shape):
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    shape = shapes.get(shape)
    centers = rng.uniform(0.3, 0.7, (32, 2)).astype(np.float32)
    targets = np.concatenate([centers, np.tile([0.5, 0.3, 0.0], (32, 1))], axis=1)
    targets = targets[:, : shape.num_coefficients].astype(np.float32)
    images = 255 * np.repeat(np.asarray(shape.masks(targets, 32, 32)), 3, axis=-1)
    detector = Detector("tiny", shape, 32, head="position", weights=None)
    model = ShapeMatching(detector)
    model.compile(keras.optimizers.Adam(3e-3))
    history = model.fit(images, targets, epochs=20, batch_size=16, verbose=0).history["loss"]
    assert history[-1] < 0.5 * history[0]
    # The generator that draws both shapes has nothing to learn.
    assert not model.generator.trainable_weights


def test_images_without_weight_teach_nothing():
    keras.utils.set_random_seed(0)
    shape = shapes.get("rectangle")
    detector = Detector("tiny", shape, 32, head="position", weights=None)
    model = ShapeMatching(detector)
    model.compile(keras.optimizers.SGD(0.1))
    images = np.random.default_rng(0).uniform(0, 255, (4, 32, 32, 3)).astype(np.float32)
    placed = np.tile(np.float32([0.2, 0.2, 0.3, 0.3]), (4, 1))
    losses = [
        float(model.compute_loss(None, placed, model(images), np.array(weights, np.float32)))
        for weights in ([1, 1, 1, 1], [1, 0, 0, 0], [0, 1, 1, 1], [0.5] * 4)
    ]
    assert losses[1] + losses[2] == pytest.approx(losses[0], rel=1e-5)
    assert losses[3] == pytest.approx(losses[0] / 2, rel=1e-5)


def test_a_run_of_before_targets_had_weights_is_resumed(finished, tmp_path):
    """Its settings had other names, and its file no weights."""
    work_dir = tmp_path / "run"
    shutil.copytree(finished, work_dir)
    record = json.loads((work_dir / "warmup" / "config.json").read_text())
    record["config"]["warmup"] = {
        **{name: getattr(SETTINGS, name) for name in ("epochs", "batch_size", "learning_rate")},
        "head_multiplier": SETTINGS.head_multiplier,
        "teacher": "descriptors",
        "teacher_keeps": 0.8,
        "descriptors": "classifier",
        "descriptor_size": 64,
        "descriptor_images": 1000,
        "silhouettes": False,
        "upright": False,
    }
    del record["layout"]
    (work_dir / "warmup" / "config.json").write_text(json.dumps(record))
    np.savez(work_dir / "warmup" / "targets.npz", coefficients=shown_targets(finished))
    shutil.rmtree(work_dir / "warmup" / "model")
    shutil.rmtree(work_dir / "model")
    shutil.rmtree(work_dir / "detector")
    runner.train(config(), small_options(work_dir))
    assert_same_weights(work_dir / "model", finished / "model")
    otherwise = config(teacher="silhouettes:weights=classifier:image_size=64")
    with pytest.raises(RunError, match="'descriptors:weights=classifier:image_size=64' there"):
        runner.train(otherwise, small_options(work_dir))


def test_a_backbone_without_weights_cannot_describe(tmp_path):
    with pytest.raises(RunError, match="--warmup_teacher=descriptors:weights=classifier"):
        runner.train(config(teacher="descriptors"), small_options(tmp_path))


class TestTeacher:
    def test_a_model_teaches_its_own_shapes_where_it_agrees_with_itself(self, finished, tmp_path):
        teacher = str(finished / "model")
        taught = config(teacher=teacher)
        runner.train(taught, small_options(tmp_path, reuse=str(finished)), stages=("warmup",))
        shown, weights = shown_targets(tmp_path), shown_targets(tmp_path, "weights")
        kept = np.array([int(weights.argmin())])  # where it is surest of nothing
        assert np.isfinite(shown).all()
        model = gc_net.load(teacher)
        with Runner(taught, small_options(tmp_path)) as run:
            split = run.data.split
            image = transforms.squash(split.read(int(kept[0])), 37)
        window = transforms.center_window(37, 32)
        seen = transforms.take(image, window, 32)[None].astype(np.float32)
        placed = [model.detector(view) for view in (seen, seen[:, :, ::-1])]
        placed[1] = model.shape.mirrored(placed[1])
        expected = model.shape.boxes(model.shape.mean(np.stack(placed)))
        agreement = box_iou(*(np.asarray(model.shape.boxes(each)) for each in placed))
        np.testing.assert_allclose(weights[kept], agreement, atol=1e-4)
        rows = [[window.top, window.left, 0, 32, 32]]
        inside = Shape.in_windows(shown[kept[:1]], rows, 37)
        np.testing.assert_allclose(model.shape.boxes(inside), expected, atol=1e-4)

    def test_a_teacher_of_another_shape_shows_its_boxes(self, finished, tmp_path):
        model, shape = str(finished / "model"), shapes.get("rotated_ellipse")
        shown = {}
        for name in ("rectangle", shape.name):
            with Runner(config(name, teacher=model), small_options(tmp_path / name)) as run:
                lesson = warmup._lesson(StageRun(run, run.units["warmup"]))
                shown[name] = teachers.get(model).targets(lesson).coefficients
        np.testing.assert_allclose(
            shapes.get("rectangle").boxes(shown["rectangle"]),
            shape.boxes(shown[shape.name]),
            atol=1e-6,
        )

    def test_a_teacher_that_is_not_there_is_refused(self, tmp_path):
        with pytest.raises(RunError, match=r"known teacher .* or the folder of a trained model"):
            runner.train(config(teacher="nowhere"), small_options(tmp_path))


def test_without_epochs_the_detector_stays_as_the_warm_up_leaves_it(finished, tmp_path):
    warm_only = dataclasses.replace(
        config(), detector=dataclasses.replace(config().detector, epochs=0)
    )
    runner.train(warm_only, small_options(tmp_path, reuse=str(finished)))
    warm = load_model(finished / "warmup" / "model").model.get_weights()
    kept = gc_net.load(tmp_path / "model").detector.get_weights()
    for before, after in zip(warm, kept, strict=True):
        np.testing.assert_array_equal(before, after)


def test_without_epochs_no_classifier_of_a_fold_is_asked_for(tmp_path):
    settings = config(epochs=1)
    classifier = dataclasses.replace(settings.classifier, num_folds=2)
    detector = dataclasses.replace(settings.detector, epochs=0)
    settings = dataclasses.replace(settings, classifier=classifier, detector=detector)
    runner.train(settings, small_options(tmp_path), stages=("detector",))
    assert (tmp_path / "model").is_dir()
    assert not list(tmp_path.glob("classifier_fold*"))


def test_a_blend_lies_between_the_warmed_up_detector_and_the_trained_one(finished, tmp_path):
    blended = config()
    blended = dataclasses.replace(
        blended, detector=dataclasses.replace(blended.detector, blend=0.25)
    )
    runner.train(blended, small_options(tmp_path, reuse=str(finished)), ["detector"])
    warm = load_model(finished / "warmup" / "model").model.get_weights()
    trained = gc_net.load(finished / "model").detector.get_weights()
    mixed = gc_net.load(tmp_path / "model").detector.get_weights()
    for before, after, between in zip(warm, trained, mixed, strict=True):
        np.testing.assert_allclose(between, 0.25 * before + 0.75 * after, rtol=1e-5, atol=1e-6)
    assert any(np.abs(a - b).max() > 1e-5 for a, b in zip(warm, trained, strict=True))


def test_a_blend_without_a_warm_up_is_refused():
    with pytest.raises(ValueError, match=r"there is no warm-up.*--warmup_epochs"):
        small_config(detector={"blend": 0.5})


def test_a_warm_up_can_be_shared_by_runs_that_differ_in_the_last_stage(finished, tmp_path):
    detector = dataclasses.replace(config().detector, loss_weights="area=7")
    other = dataclasses.replace(config(), detector=detector)
    reuse = {"reuse": f"{tmp_path / 'nothing'},{finished}"}
    runner.train(other, small_options(tmp_path / "run", **reuse), ["detector"])
    assert not (tmp_path / "run" / "warmup").exists()
    assert gc_net.load(tmp_path / "run" / "model").record.loss_weights["area"] == 7
    longer = dataclasses.replace(other, warmup=dataclasses.replace(SETTINGS, epochs=4))
    with Runner(longer, small_options(tmp_path / "longer", **reuse)) as run:
        assert run.is_done(run.units["classifier"]) and not run.is_done(run.units["warmup"])


def test_stages_run_one_by_one_end_with_the_same_weights_where_dropout_is_on(tmp_path):
    """Dropout has a seed, which is no weight: it must not depend on what ran in the process."""
    reference = {"epochs": 1, "preset": "reference", "head": "native"}
    settings = dataclasses.replace(
        small_config(classifier={"epochs": 1}, detector=reference),
        warmup=dataclasses.replace(SETTINGS, epochs=1),
    )
    runner.train(settings, small_options(tmp_path / "at_once"))
    for stage in ("classifier", "warmup", "detector"):
        runner.train(settings, small_options(tmp_path / "one_by_one"), [stage])
    assert_same_weights(tmp_path / "at_once" / "model", tmp_path / "one_by_one" / "model")


def test_steps_means_and_crops_are_exact_when_resumed(finished, tmp_path, monkeypatch):
    """A length in steps, longer than a pass; windows of all sizes; a mean of the weights."""
    new = {"steps": 7, "average": 0.7, "crop_scale": 0.5, "crop_aspect": 1.5}
    settings = config(**new)
    detector = dataclasses.replace(settings.detector, **new)
    settings = dataclasses.replace(settings, detector=detector)
    reuse = {"reuse": str(finished)}
    runner.train(settings, small_options(tmp_path / "whole", **reuse))
    for stage in ("warmup", "detector"):
        assert len(read_log(tmp_path / "whole" / stage / "log.csv")) == 1
    # The detector differs from one without them, though its settings are the same otherwise.
    warm = load_model(tmp_path / "whole" / "warmup" / "model").model.get_weights()
    other = load_model(finished / "warmup" / "model").model.get_weights()
    assert any(np.abs(a - b).max() > 1e-4 for a, b in zip(warm, other, strict=True))

    class Killed(BaseException):
        pass

    save, saves = runner.loop._save, []

    def kill_sometimes(*arguments):
        save(*arguments)
        saves.append(arguments)
        if len(saves) in (2, 7):
            raise Killed

    monkeypatch.setattr(runner.loop, "_save", kill_sometimes)
    for _ in range(2):
        with pytest.raises(Killed):
            runner.train(settings, small_options(tmp_path / "killed", **reuse))
    runner.train(settings, small_options(tmp_path / "killed", **reuse))
    assert_same_weights(tmp_path / "whole" / "model", tmp_path / "killed" / "model")


class TestEdges:
    """The head that finds edges, which learns boxes and masks."""

    @staticmethod
    def config(**changes):
        settings = {"epochs": 2, "learning_rate": 2e-3, "head_multiplier": 1.0, **changes}
        settings = dataclasses.replace(SETTINGS, **settings)
        detector = {"shape": "rotated_ellipse", "head": "edges", "epochs": 1}
        return dataclasses.replace(small_config(detector=detector), warmup=settings)

    @pytest.fixture(scope="class")
    def warmed_up(self, finished, tmp_path_factory):
        """A function from `train_from` to the folder of a warm-up that was not stopped."""

        @functools.cache
        def folder(train_from):
            work_dir = tmp_path_factory.mktemp("edges")
            options = small_options(work_dir, reuse=str(finished))
            runner.train(self.config(train_from=train_from), options, ["warmup"])
            return work_dir

        return folder

    @pytest.mark.parametrize("train_from", [None, "head"])
    def test_a_warm_up_that_was_stopped_ends_with_the_same_weights(
        self, finished, warmed_up, tmp_path, monkeypatch, train_from
    ):
        given = self.config(train_from=train_from)

        class Stopped(Exception):
            pass

        def stopping(model):
            take_step, steps = original(model), []

            def step(iterator):
                steps.append(1)
                if len(steps) == 4:
                    raise Stopped
                return take_step(iterator)

            return step

        whole, resumed = warmed_up(train_from), tmp_path / "resumed"
        stages = ("classifier", "warmup")
        original = runner.loop.distributed_step
        with monkeypatch.context() as patch:
            patch.setattr(runner.loop, "distributed_step", stopping)
            with pytest.raises(Stopped):
                runner.train(given, small_options(resumed, reuse=str(finished)), stages)
        kept = (resumed / "warmup_features" / "features.json").exists()
        assert kept == (train_from == "head")
        runner.train(given, small_options(resumed, reuse=str(finished)), stages)
        assert_same_weights(resumed / "warmup" / "model", whole / "warmup" / "model")
        assert not (resumed / "warmup_features").exists()
        log = read_log(whole / "warmup" / "log.csv")
        assert log[-1]["loss"] < log[0]["loss"]
        assert shown_targets(whole).shape == (26, 4)
        assert shown_targets(whole, "masks").shape == (26, 28, 28)

    def test_a_frozen_trunk_stays_as_it_was(self, finished, warmed_up, tmp_path):
        warm = warmed_up("head")
        given, reuse = self.config(train_from="head"), f"{warm},{finished}"
        runner.train(given, small_options(tmp_path, reuse=reuse))
        detector = load_model(warm / "warmup" / "model").model
        classifier = load_model(finished / "classifier" / "model").model
        for layer in detector.trunk.layers:
            before = classifier.trunk.get_layer(layer.name).get_weights()
            for value, expected in zip(layer.get_weights(), before, strict=True):
                np.testing.assert_array_equal(value, expected)
        # The last stage trains it by the three losses.
        assert gc_net.load(tmp_path).detector.parametrization.name == "edges"

    def test_other_sizes_of_windows_need_other_features(self):
        detector = Detector("tiny", "rectangle", 32, head="edges", weights=None)
        data = types.SimpleNamespace(split=range(9))
        run = types.SimpleNamespace(settings=self.config().warmup, data=data)
        assert not warmup.on_features(run, detector)
        detector.freeze_before("head")
        assert warmup.on_features(run, detector)
        run.settings = self.config(crop_scale=0.6).warmup
        assert not warmup.on_features(run, detector)
        run = types.SimpleNamespace(
            settings=SETTINGS, data=types.SimpleNamespace(split=range(10**7))
        )
        assert not warmup.on_features(run, detector)

    @pytest.mark.parametrize("on_features", [False, True])
    @pytest.mark.parametrize("head", ["position", "edges"])
    def test_a_head_learns_from_images_and_from_their_features_alike(self, head, on_features):
        keras.utils.set_random_seed(0)
        detector = Detector("tiny", "rectangle", 32, head=head, weights=None)
        detector.freeze_before("head")
        rng = np.random.default_rng(0)
        placed = np.float32(np.concatenate([rng.uniform(0.3, 0.7, (8, 2)), [[0.4, 0.5]] * 8], 1))
        masks = np.asarray(detector.shape.masks(placed, 16, 16))[..., 0]
        images = 255 * np.repeat(np.asarray(detector.shape.masks(placed, 32, 32)), 3, axis=-1)
        edges = np.asarray(detector.shape.boxes(placed))
        learned = {"edges": edges, "mask": masks} if head == "edges" else placed
        matching = EdgeMatching if head == "edges" else ShapeMatching
        model = matching(detector, on_features=on_features)
        model.compile(keras.optimizers.Adam(5e-3))
        inputs = detector.features(images) if on_features else images
        inputs = tuple(inputs) if isinstance(inputs, list) else inputs
        batches = tf.data.Dataset.from_tensors((inputs, learned, np.ones(8, np.float32)))
        losses = model.fit(batches.repeat(30), verbose=0, steps_per_epoch=10, epochs=3)
        losses = losses.history["loss"]
        assert losses[-1] < 0.8 * losses[0]
        assert not detector.trunk.trainable_variables
