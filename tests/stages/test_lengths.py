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


@pytest.mark.parametrize(
    ("steps", "least", "expected"),
    [
        (300, 25, 32),  # whole passes of 8 steps, about ten lines
        (3000, 25, 256),
        (300, 250, 256),
        (40, 25, 32),
        (4, 25, 32),
    ],
)
def test_a_training_given_in_steps_is_logged_in_about_ten_lines(steps, least, expected):
    from gc_net.stages.runner import _logged_steps

    assert _logged_steps(StageConfig(steps=steps), steps, 8, least) == expected


def test_a_training_given_in_epochs_is_logged_by_epochs():
    from gc_net.stages.runner import _logged_steps

    assert _logged_steps(StageConfig(epochs=3), 24, 8, 25) == 8
