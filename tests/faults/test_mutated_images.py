"""No mutated image crashes, hangs or eats the memory, whatever way it comes in."""

import json
import subprocess
import sys

from tests.faults import amount
from tests.faults.mutator import FILES, mutated
from tests.training.samples import ROOT

NUM_IMAGES = amount(250, 20_000)
NUM_PROCESSES = amount(1, 2)
SEED = 0
# An image of MAX_PIXELS in float32, and half as much again for what it is made from.
MOST_MEGABYTES = 3_300


def test_every_mutated_image_is_decoded_to_something_finite_or_refused(tmp_path):
    share = NUM_IMAGES // NUM_PROCESSES
    processes = [
        started(tmp_path, number, number * share, share) for number in range(NUM_PROCESSES)
    ]
    for number, process in enumerate(processes):
        output, _ = process.communicate()
        trace, errors = ((tmp_path / f"{number}{end}").read_text() for end in ("", ".errors"))
        assert process.returncode == 0, f"{trace}\n{errors[-2000:]}"
        found = json.loads(output.splitlines()[-1])
        print(f"\n{json.dumps(found, indent=1)}")
        assert not found["failures"]
        for counts in found["counts"].values():
            assert sum(counts.values()) == share
            assert min(counts["decoded"], counts["rejected"]) > share / 25
        assert found["counts"]["predict"] == found["counts"]["dataset"]
        assert max(found["largest_megabytes"].values()) < MOST_MEGABYTES


def started(folder, number, first, count):
    options = {"seed": SEED, "first": first, "count": count, "seconds": 120}
    options |= {"trace": folder / f"{number}", "scratch": folder / f"{number}.image"}
    command = [sys.executable, "-m", "tests.faults.decode_mutated"]
    command += [f"--{name}={value}" for name, value in options.items()]
    with open(folder / f"{number}.errors", "w") as errors:  # decoders have much to say
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)


def test_mutated_images_are_many_and_the_same_each_time():
    images = [mutated(1, number) for number in range(500)]
    assert images == [mutated(1, number) for number in range(500)]
    assert len({data for _, _, data in images}) > 480
    assert {name for name, _, _ in images} == set(FILES)
    assert sum(data in FILES.values() for _, _, data in images) < 10
