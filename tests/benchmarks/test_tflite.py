"""TFLite is measured beside Keras, with how far it is from it."""

import pytest

from gc_net.benchmarks import tflite


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
