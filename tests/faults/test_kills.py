"""Training killed over and over, its files damaged in between, ends as if nothing had happened."""

import collections
import os
import random
import time

import pytest

from gc_net.stages import run_folder
from tests.faults import LONG, amount
from tests.faults.trainer import started
from tests.training.samples import assert_same_weights

SEED = 20_200_823
NUM_KILLS = amount(3, 60)
TRAINED = None if LONG else ("classifier",)


def newest_checkpoint(work_dir):
    return sorted(str(path) for path in work_dir.glob("*/checkpoints/*.npz"))[-1:]


def until_it_writes(process, work_dir):
    before = newest_checkpoint(work_dir)
    while process.is_alive() and newest_checkpoint(work_dir) == before:
        time.sleep(0.01)


def killed(work_dir, rng):
    """Start or go on with a run, kill it; return at what kind of moment, or None if it ended."""
    process = started(work_dir, TRAINED)
    moment = "around a checkpoint" if rng.random() < 0.6 else "any time"
    if moment == "around a checkpoint":
        until_it_writes(process, work_dir)
        if process.is_alive():
            with pytest.raises(run_folder.RunError, match="in use by another run"):
                run_folder.locked(str(work_dir)).__enter__()
        time.sleep(rng.uniform(0, 0.2))
    else:
        process.join(rng.uniform(0, 12))
    alive = process.is_alive()
    process.kill()
    process.join()
    if not alive:
        assert process.exitcode == 0
    return moment if alive else None


def flip(path, rng):
    with open(path, "r+b") as file:
        place = rng.randrange(os.path.getsize(path))
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1 << rng.randrange(8)]))


def cut(path, rng):
    os.truncate(path, rng.randrange(os.path.getsize(path)))


def damage(work_dir, rng):
    """Damage a file of the run, as a failing disk would; return what was done."""
    files = {"checkpoint": newest_checkpoint(work_dir)}
    for name in ("images.bin", "records.bin", "meta.json"):
        files[f"cache's {name}"] = sorted(work_dir.glob(f"cache/*/{name}"))
    what = rng.choice(sorted(files))
    if not files[what]:
        return None
    do = rng.choice((flip, cut))
    do(files[what][0], rng)
    return f"{what} {do.__name__}"


def test_killed_and_damaged_a_run_ends_with_the_same_weights_and_logs(tmp_path):
    rng = random.Random(SEED)
    reference = tmp_path / "reference"
    process = started(reference, TRAINED)
    process.join()
    assert process.exitcode == 0
    counts, runs = collections.Counter(), 0
    while sum(counts[moment] for moment in ("around a checkpoint", "any time")) < NUM_KILLS:
        work_dir = tmp_path / f"killed{runs}"
        moment = killed(work_dir, rng)
        if moment is None:  # it came to its end; go on killing another one
            check_end(reference, work_dir)
            runs += 1
            continue
        counts[moment] += 1
        if rng.random() < 0.35:
            counts[damage(work_dir, rng)] += 1
    process = started(work_dir, TRAINED)
    process.join()
    assert process.exitcode == 0
    check_end(reference, work_dir)
    print(f"\n{runs + 1} runs, all with the same end:", dict(counts))


def check_end(reference, work_dir):
    for path in ("model", "classifier/model")[0 if LONG else 1 :]:
        assert_same_weights(reference / path, work_dir / path)
    for log in reference.glob("*/log.csv"):
        assert log.read_text() == (work_dir / log.relative_to(reference)).read_text()
    assert not list(work_dir.rglob("*.partial"))
    assert not list(work_dir.rglob("checkpoints"))
