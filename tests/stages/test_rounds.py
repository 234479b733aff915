"""Rounds of a warm-up: the detector's own shapes join those of the teacher."""

import dataclasses

import numpy as np
import pytest

from gc_net.metrics import box_iou
from gc_net.saving import load_model
from gc_net.shapes import get as get_shape
from gc_net.stages import runner, warmup
from gc_net.stages.runner import Runner
from gc_net.stages.warmup import WarmupConfig
from gc_net.teachers import own_shapes
from gc_net.teachers.base import Targets
from tests.training.samples import assert_same_weights, small_config, small_options, stopped_before

TEACHER = "descriptors:weights=classifier:image_size=64"
HEADS = {
    "position": {"train_from": None},
    # Its trunk is not trained, so that features are computed once.
    "edges": {"train_from": "head"},
}


def config(head="edges", rounds=2, **changes):
    settings = {"epochs": 1, "batch_size": 6, "teacher": TEACHER, "rounds": rounds}
    detector = {"shape": "rotated_ellipse", "head": head, "epochs": 0}
    base = small_config(classifier={"epochs": 1}, detector=detector)
    return dataclasses.replace(base, warmup=WarmupConfig(**{**settings, **HEADS[head], **changes}))


def targets(work_dir, stage, name):
    with np.load(work_dir / stage / "targets.npz", allow_pickle=False) as file:
        return file[name]


@pytest.fixture(scope="module", params=HEADS)
def finished(request, tmp_path_factory):
    work_dir = tmp_path_factory.mktemp(request.param)
    runner.train(config(request.param), small_options(work_dir))
    return request.param, work_dir


def test_a_second_round_has_a_folder_of_its_own_and_is_trained_on(finished):
    _, work_dir = finished
    first, last = (
        load_model(work_dir / stage / "model").model.get_weights()
        for stage in ("warmup_round1", "warmup")
    )
    assert any(not np.array_equal(one, other) for one, other in zip(first, last, strict=True))
    # The detector of the run is that of the last round.
    detector = load_model(work_dir / "detector" / "model").model.get_weights()
    assert all(np.array_equal(one, other) for one, other in zip(detector, last, strict=True))
    assert not list(work_dir.glob("*features*")) and not list(work_dir.glob("**/checkpoints"))


def test_its_targets_lie_between_those_of_the_teacher_and_its_own(finished):
    head, work_dir = finished
    shape = get_shape("rectangle" if head == "edges" else "rotated_ellipse")
    shown, joined = (
        targets(work_dir, stage, "coefficients") for stage in ("warmup_round1", "warmup")
    )
    np.testing.assert_array_equal(np.isnan(shown), np.isnan(joined))
    known = np.isfinite(shown[:, 0])
    assert known.any() and not np.array_equal(shown[known], joined[known])
    overlap = box_iou(np.asarray(shape.boxes(shown[known])), np.asarray(shape.boxes(joined[known])))
    assert overlap.mean() > 0.3
    assert 0 < targets(work_dir, "warmup", "agreement") <= 1
    weights = targets(work_dir, "warmup", "weights")
    assert (weights <= targets(work_dir, "warmup_round1", "weights") + 1e-6).all()


def test_the_same_command_trains_nothing_again(finished, monkeypatch):
    head, work_dir = finished
    monkeypatch.setattr(runner.loop, "train", lambda *_, **__: pytest.fail("trained again"))
    runner.train(config(head), small_options(work_dir))


def test_a_run_that_was_stopped_in_its_second_round_ends_with_the_same_weights(finished, tmp_path):
    head, work_dir = finished
    run = stopped_before(work_dir, tmp_path / "run", "warmup", "detector")
    calls = []

    def stopped(model, *arguments, **settings):
        calls.append(settings["folder"])
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(runner.loop, "train", stopped)
        runner.train(config(head), small_options(run))
    assert calls == [str(run / "warmup")]
    runner.train(config(head), small_options(run))
    assert_same_weights(work_dir / "model", run / "model")


@pytest.mark.parametrize("finished", ["position"], indirect=True)
def test_a_later_round_is_left_out_where_the_detector_agrees_no_better(
    finished, tmp_path, monkeypatch
):
    head, work_dir = finished
    agreement = iter([0.9, 0.8])
    real = own_shapes.own_targets

    def own(*arguments):
        found = real(*arguments)
        return found._replace(weights=np.full_like(found.weights, next(agreement)))

    monkeypatch.setattr(own_shapes, "own_targets", own)
    runner.train(config(head, rounds=3), small_options(tmp_path, reuse=str(work_dir)))
    assert_same_weights(tmp_path / "warmup_round2" / "model", tmp_path / "warmup" / "model")
    assert not (tmp_path / "warmup" / "log.csv").exists()


def test_rounds_come_one_after_the_other_and_before_the_detector(tmp_path):
    with Runner(config(rounds=3), small_options(tmp_path)) as run:
        names = [unit.name for unit in warmup.WarmupStage.units(run.config)]
        assert names == ["warmup_round1", "warmup_round2", "warmup"]
        from gc_net.stages.dependencies import in_order

        plan = [unit.name for unit in in_order([run.units["detector"]], run.units)]
    assert plan == ["classifier", "warmup_round1", "warmup_round2", "warmup", "detector"]


def test_one_round_is_the_stage_as_it_was(tmp_path):
    assert [unit.name for unit in warmup.WarmupStage.units(config(rounds=1))] == ["warmup"]


def test_targets_are_joined_edge_by_edge_and_weighed_by_their_overlap():
    shape = get_shape("rectangle")
    shown = np.array([[0.5, 0.5, 0.4, 0.4], [np.nan] * 4, [0.3, 0.3, 0.2, 0.2]], "f4")
    own = np.array([[0.6, 0.5, 0.4, 0.4], [0.5, 0.5, 0.5, 0.5], [0.8, 0.8, 0.2, 0.2]], "f4")
    joined = own_shapes.joined_by_own(
        shape,
        Targets(shown, np.array([1, 0, 1], "f4"), np.zeros((3, 28, 28), np.uint8)),
        Targets(own, np.array([1, 1, 1], "f4")),
    )
    np.testing.assert_allclose(joined.coefficients[0], [0.55, 0.5, 0.4, 0.4], atol=1e-6)
    np.testing.assert_allclose(joined.weights, [0.6, 0, 0], atol=1e-6)  # 0.3 of 0.5 is shared
    assert np.isnan(joined.coefficients[1]).all()
    assert joined.masks is not None
