"""The time that a training will take is said in advance, in round numbers."""

import pytest

from gc_net.classifier import Classifier
from gc_net.stages import STAGES
from gc_net.training.estimate import in_words, pass_seconds


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (10, "half a minute"),
        (65, "1 minute"),
        (14 * 60 + 20, "14 minutes"),
        (43 * 60, "45 minutes"),
        (2.4 * 3600, "2 ½ hours"),
        (9.9 * 3600, "10 hours"),
    ],
)
def test_a_time_is_rounded_as_people_do(seconds, words):
    assert in_words(seconds) == words


def test_a_pass_is_timed_on_the_network_itself():
    assert 0 < pass_seconds(Classifier("tiny", 2, 32, weights=None), 32) < 1


def test_a_stage_that_asks_the_classifier_of_masked_images_takes_three_times_as_long():
    detector, warmup = STAGES.get("detector")(), STAGES.get("warmup")()
    assert detector.passes == 3 * warmup.passes
