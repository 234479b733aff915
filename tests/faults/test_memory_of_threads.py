"""Small files of many pixels take no more memory on many threads than one of them takes."""

import subprocess
import sys

from tests.data import encoded
from tests.faults import amount
from tests.training.samples import ROOT

# Arrays of this many bytes go back to the system when they are freed; smaller ones may be kept.
SIDE = amount(6_000, 13_000)
NUM_FILES = 6
SCRIPT = """
import sys
import numpy as np
from gc_net.data import decode, loading
from gc_net.data.splits import Split
from gc_net.data.transforms import center_window
from tests.faults import memory

folder, side, limit, *files = sys.argv[1:]
files = np.array([file.encode() for file in files])
decode.IN_FLIGHT.limit = int(limit)
loading._num_threads = lambda: 4
split = Split("train", ("one",), np.zeros(len(files)), files, folder,
              decode.FileReader(folder, files))
loader = loading.Loader(split, 64, 64, None, loading.Unreadable(), len(files))
before = memory.restart_peak()
_, sizes, _ = loader.load(np.arange(len(files)), lambda index: [center_window(64, 64)])
assert sizes.tolist() == [[int(side)] * 2] * len(files)
print(memory.peak() - before)
"""


def test_six_small_files_of_many_pixels_take_the_memory_of_one(tmp_path):
    bomb = encoded.png_bomb(SIDE, SIDE)
    assert len(bomb) < SIDE**2 / 100
    files = [f"{number}.png" for number in range(NUM_FILES)]
    for file in files:
        (tmp_path / file).write_bytes(bomb)
    one = megabytes(tmp_path, files[:1], SIDE**2)
    # Room for one, as that of `MAX_PIXELS` is for an image of 13,000 × 13,000.
    bounded, unbounded = (megabytes(tmp_path, files, count * SIDE**2) for count in (1, NUM_FILES))
    print(f"\nOf {SIDE}²: one {one} MB; six on four threads {bounded}, unbounded {unbounded} MB")
    assert bounded < 1.4 * one < unbounded


def megabytes(folder, files, limit):
    command = [sys.executable, "-c", SCRIPT, folder, SIDE, limit, *files]
    done = subprocess.run(map(str, command), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout) // 1024
