"""A start is measured step by step, in a process of its own."""

from benchmarks import start
from benchmarks.models import write_untrained_model


def test_each_step_takes_time_and_the_second_prediction_the_least(tmp_path):
    write_untrained_model(tmp_path, "tiny", 32)
    seconds = start.measure(tmp_path)
    assert seconds.shape == (2, len(start.STEPS)) and (seconds > 0).all()
    assert seconds[1].argmin() == len(start.STEPS) - 1
