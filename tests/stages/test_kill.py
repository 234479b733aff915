"""Real processes, really killed."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.training.samples import FLAGS, ROOT, assert_same_weights, run_tool

ARGUMENTS = (
    *FLAGS,
    "--classifier_epochs=3",
    "--classifier_batch_size=4",
    "--classifier_num_folds=2",
    "--classifier_mask_fraction=0.5",
    "--detector_epochs=4",
    "--detector_batch_size=4",
    "--checkpoint_steps=1",
    "--noevaluate",
)


def killed_run(work_dir, pause):
    """Start a run, kill it `pause` seconds after it writes; return whether it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.train", *ARGUMENTS, f"--work_dir={work_dir}"],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    before = newest_checkpoint(work_dir)
    while process.poll() is None and newest_checkpoint(work_dir) == before:
        time.sleep(0.002)
    time.sleep(pause)
    if process.poll() is not None:
        return False
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)
    return True


def newest_checkpoint(work_dir):
    return sorted(str(path) for path in work_dir.glob("*/checkpoints/*.npz"))[-1:]


@pytest.mark.slow
def test_killed_at_random_moments_a_run_ends_with_the_same_weights(tmp_path):
    reference, killed = tmp_path / "reference", tmp_path / "killed"
    process = run_tool("train", *ARGUMENTS, f"--work_dir={reference}", timeout=900)
    assert process.returncode == 0, process.stderr
    rng = random.Random(time.time_ns())  # another moment in every run of this test
    pauses = [rng.uniform(0, 0.3) for _ in range(4)]
    kills = sum(killed_run(killed, pause) for pause in pauses)
    assert kills == len(pauses), pauses
    process = run_tool("train", *ARGUMENTS, f"--work_dir={killed}", timeout=900)
    assert process.returncode == 0, process.stderr
    assert "Resuming at step" in process.stdout, pauses
    for part in ("classifier", "classifier_fold0", "classifier_fold1", "."):
        assert_same_weights(reference / part / "model", killed / part / "model")
