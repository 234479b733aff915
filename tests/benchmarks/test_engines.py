"""Engines are measured beside each other on the same images, with a tiny model."""

from benchmarks import engines as benchmark
from benchmarks.models import write_untrained_model
from gc_net.engines import ENGINES
from gc_net.localizer import load
from tests.evaluation.models import CLASS_NAMES, Blocks


def test_every_engine_has_a_row_and_tensorflow_is_the_measure():
    _, speed = benchmark.report(
        backbone="tiny", image_size=32, num_images=3, batch_size=2, rounds=1
    )
    rows = [line.strip("| ").split(" | ") for line in speed.splitlines()[2:]]
    names = [(confidence, name) for confidence in benchmark.CONFIDENCES for name in ENGINES]
    assert [tuple(row[:2]) for row in rows] == names
    assert all(row[3] == row[6] == "1.00×" for row in rows if row[1] == "tensorflow")


def test_an_evaluation_is_measured_by_every_engine(tmp_path):
    write_untrained_model(tmp_path, "tiny", 32, num_classes=3, class_names=CLASS_NAMES)
    timings = benchmark.measure_evaluation(load(tmp_path), Blocks(), num_images=3, rounds=1)
    assert list(timings.wall) == list(ENGINES)
