"""No mutated image crashes, hangs or eats the memory, whatever way it comes in."""

import json
import subprocess
import sys

from tests.faults import amount
from tests.faults.mutator import FILES, mutated
from tests.training.samples import ROOT

NUM_IMAGES = amount(250, 10_000)
SEED = 0
# An image of MAX_PIXELS in float32, and half as much again for what it is made from.
MOST_MEGABYTES = 3_300


def test_every_mutated_image_is_decoded_to_something_finite_or_refused(tmp_path):
    trace = tmp_path / "trace"
    command = [sys.executable, "-m", "tests.faults.decode_mutated"]
    options = {"seed": SEED, "count": NUM_IMAGES, "trace": trace, "scratch": tmp_path / "image"}
    done = subprocess.run(
        [*command, *(f"--{name}={value}" for name, value in options.items())],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{trace.read_text()}\n{done.stderr[-2000:]}"
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"\n{json.dumps(found, indent=1)}")
    assert not found["failures"]
    for counts in found["counts"].values():
        assert sum(counts.values()) == NUM_IMAGES
        assert min(counts["decoded"], counts["rejected"]) > NUM_IMAGES / 25
    assert max(found["largest_megabytes"].values()) < MOST_MEGABYTES


def test_mutated_images_are_many_and_the_same_each_time():
    images = [mutated(1, number) for number in range(500)]
    assert images == [mutated(1, number) for number in range(500)]
    assert len({data for _, _, data in images}) > 480
    assert {name for name, _, _ in images} == set(FILES)
    assert sum(data in FILES.values() for _, _, data in images) < 10
