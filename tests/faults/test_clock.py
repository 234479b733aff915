"""A clock that jumps back, as when a laptop wakes up or a server is set right."""

import itertools
import os
import time

import numpy as np

from gc_net.stages.runner import train
from gc_net.training.callbacks.csv_log import read_log
from gc_net.training.checkpoint import Checkpoints
from tests.training.samples import assert_same_weights, small_config, small_options

DAY = 86_400


def test_a_clock_that_jumps_back_again_and_again_changes_nothing(tmp_path, monkeypatch, capsys):
    config, stages = small_config(), ("classifier",)
    train(config, small_options(tmp_path / "reference"), stages)
    clock, clock_ns, jumps = time.time, time.time_ns, itertools.count()
    monkeypatch.setattr(time, "time", lambda: clock() - DAY * next(jumps))
    monkeypatch.setattr(time, "time_ns", lambda: clock_ns() - DAY * 10**9 * next(jumps))
    capsys.readouterr()
    train(config, small_options(tmp_path / "jumping", verbose=1, tensorboard=True), stages)
    assert next(jumps) > 0
    assert_same_weights(
        tmp_path / "reference/classifier/model", tmp_path / "jumping/classifier/model"
    )
    # Times are taken from a clock that cannot jump: no time left is negative.
    assert " -" not in capsys.readouterr().out.replace("\n", " ")
    logs = [read_log(tmp_path / name / "classifier/log.csv") for name in ("reference", "jumping")]
    assert logs[0] == logs[1]


def test_the_newest_checkpoint_is_the_one_of_the_latest_step_whatever_the_files_times(tmp_path):
    checkpoints = Checkpoints(str(tmp_path), keep=3)
    for step in (1, 2, 3):
        path = checkpoints.save(step, {"a": np.array(step)}, {"step": step})
        os.utime(path, (time.time() - step * DAY,) * 2)
    assert checkpoints.load()[1] == {"step": 3}
