"""TFLite is measured beside Keras, with how far it is from it."""

import numpy as np
import pytest

from benchmarks import tflite
from gc_net.data.transforms import squash
from tests.prediction.models import encode, noise


@pytest.mark.slow
def test_both_files_are_timed_and_compared():
    _, table = tflite.report(backbone="tiny", image_size=32, num_images=4, rounds=1)
    rows = [line.split(" | ") for line in table.splitlines()[2:]]
    assert [row[0].removeprefix("| ") for row in rows] == [
        tflite.KERAS,
        tflite.FLOAT,
        tflite.INTEGER,
    ]
    assert rows[0][2] == "1.00×"
    assert float(rows[1][4]) > float(rows[2][4])  # 8 bits take less room than 32


def test_only_images_that_the_pattern_matches_are_calibrated_with(tmp_path, monkeypatch):
    class Calibrated(Exception):
        pass

    def convert(module, calibration=None):
        if calibration is not None:
            raise Calibrated(calibration)

    (tmp_path / "deeper").mkdir()
    for number, name in enumerate(("a.png", "b.bmp", "c.png", "deeper/d.png")):
        image = noise(40, 50, number)
        (tmp_path / name).write_bytes(encode(image, name[name.index(".") :]))
    monkeypatch.setattr(tflite, "convert", convert)
    blocks = tflite.report(backbone="tiny", image_size=32, images=tmp_path / "*.png", rounds=1)
    with pytest.raises(Calibrated) as raised:
        list(blocks)
    (calibration,) = raised.value.args
    np.testing.assert_array_equal(calibration, [squash(noise(40, 50, seed), 32) for seed in (0, 2)])
