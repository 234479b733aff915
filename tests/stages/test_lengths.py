"""How long a stage is trained."""

import pytest

from gc_net.stages.base import StageConfig, num_steps


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"epochs": 8}, 80),
        ({"epochs": 8, "min_steps": 300}, 300),
        ({"epochs": 8, "min_steps": 30}, 80),
        ({"epochs": 8, "max_steps": 50}, 50),
        ({"epochs": 8, "min_steps": 10, "max_steps": 90}, 80),
        ({"epochs": 8, "steps": 7, "min_steps": 300}, 7),
        ({"epochs": 0, "min_steps": 300}, 0),
    ],
)
def test_steps_are_those_of_the_epochs_within_their_bounds(settings, expected):
    assert num_steps(StageConfig(**settings), steps_per_epoch=10) == expected


def test_bounds_that_cross_are_refused():
    with pytest.raises(ValueError, match="max_steps=5 and min_steps=6"):
        StageConfig(min_steps=6, max_steps=5)
