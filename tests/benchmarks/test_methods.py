"""A method's step is timed beside the passes of the very networks that it trains."""

import numpy as np
import pytest

from benchmarks import methods, step
from gc_net.methods import METHODS, get


def test_all_that_train_are_measured():
    assert set(methods.TRAINED) == {name for name in METHODS if get(name).trains}


def test_a_report_has_a_row_for_every_method(monkeypatch):
    monkeypatch.setattr(methods, "TRAINED", ("gmp", "has"))
    conditions, table = methods.report(backbones=["tiny"], image_sizes=[32], batch_size=2, rounds=1)
    assert "batches of 2" in conditions
    titles = [line.split(" | ")[2] for line in table.splitlines()[2:]]
    assert titles == ["GMP", "HaS"]


@pytest.mark.parametrize("name", ["acol", "spg"])
def test_bare_passes_reach_every_network(name):
    model = methods.trained_model(name, "tiny", 32, num_classes=3)
    images, _ = step.noise_of(32, 3, batch_size=4)
    gradients = methods.bare_passes(model, images)()
    assert len(gradients) == len(model.trainable_variables)
    assert all(gradient is not None for gradient in gradients)
    assert sum(np.abs(gradient).max() > 0 for gradient in gradients) > len(gradients) / 2
