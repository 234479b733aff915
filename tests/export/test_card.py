"""What a model card says, whatever the format of the export."""

import json
import re

import pytest

from gc_net.classifier import Classifier
from gc_net.export.card import model_card
from gc_net.localizer import load
from gc_net.training_record import TrainingRecord
from tests.models import localizer_of
from tests.prediction.models import CLASS_NAMES, tiny_model

RECORD = TrainingRecord(
    settings={"data": {"dataset": "cub", "data_dir": "/home/me/CUB_200_2011"}},
    environment={"command": ["/home/me/tools/train.py", "--data_dir=/home/me/CUB_200_2011"]},
)


@pytest.fixture(scope="module")
def localizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    localizer_of(tiny_model(), CLASS_NAMES, record=RECORD).save(folder)
    return load(folder)


def blocks(card):
    """Return the JSON blocks of a card: metrics and training."""
    return [json.loads(block) for block in re.findall(r"```json\n(.*?)```", card, re.DOTALL)]


def test_it_does_not_tell_where_the_model_was_trained(localizer):
    card = model_card("birds", localizer, {"corloc": 12.5, "model": "/home/me/runs/birds/model"})
    assert "/home/me" not in card
    metrics, training = blocks(card)
    assert metrics == {"corloc": 12.5, "model": "model"}
    assert training["settings"]["data"] == {"dataset": "cub", "data_dir": "CUB_200_2011"}
    assert training["environment"]["command"] == ["train.py", "--data_dir=CUB_200_2011"]


@pytest.mark.parametrize("measured", [0.0, 1.5, None])
@pytest.mark.parametrize("exported", [0.0, 1.5])
def test_it_says_where_its_errors_are_those_of_another_second_look(localizer, measured, exported):
    localizer = localizer.replace(second_look=exported)
    settings = {"second_look": measured, "second_classifier_size": None}
    metrics = {"cls_err_top1": 12.5, "settings": settings if measured is not None else {}}
    card = model_card("birds", localizer, metrics)
    section = card.partition("## How well it does")[2].partition("```")[0]
    assert ("another second look" in section) == (measured not in (None, exported))


@pytest.fixture(scope="module")
def second():
    return Classifier("tiny", len(CLASS_NAMES), 44, weights=None, name="second_classifier")


def test_it_names_a_second_classifier_only_where_there_is_a_second_look(localizer, second):
    def row(second, look):
        looking = localizer.replace(second_classifier=second, second_look=look)
        card = model_card("birds", looking)
        return re.search(r"^\| second classifier \| (.*) \|$", card, re.MULTILINE).group(1)

    assert row(None, 0.0) == row(second, 0.0) == "none"
    assert row(None, 1.5) == "none: the classifier looks twice"
    assert row(second, 1.5) == "tiny, of close-ups of 44 × 44"


@pytest.mark.parametrize("exported", [None, "second"])
@pytest.mark.parametrize(
    ("settings", "said_without", "said_with"),
    [
        # Under the names of earlier versions, too.
        ({"look": 1.5, "namer_size": 44}, "by a second classifier, which sees close-ups of 44", ""),
        (
            {"second_look": 1.5, "second_classifier_size": None},
            "",
            r"\(a region .*, by the classifier\)",
        ),
        (
            {"second_look": 1.5, "second_classifier_size": 64},
            "of 64 × 64",
            "of 64 × 64.*of 44 × 44",
        ),
        ({"second_look": 1.5}, "", "do not say whether they were measured with the second"),
        ({}, "", "do not say whether they were measured with the second"),
        ({"second_look": 0.0}, r"another second look \(none\)", r"another second look \(none\)"),
    ],
)
def test_it_says_where_its_errors_are_those_of_another_second_classifier(
    localizer, second, exported, settings, said_without, said_with
):
    looking = localizer.replace(second_classifier=second if exported else None, second_look=1.5)
    card = model_card("birds", looking, {"cls_err_top1": 12.5, "settings": settings})
    section = card.partition("## How well it does")[2].partition("```")[0].strip()
    expected = said_with if exported else said_without
    assert re.search(expected, section)
    assert bool(section) == bool(expected)


def test_of_a_model_without_an_evaluation_says_that_there_is_none(localizer):
    assert "It came without an evaluation." in model_card("birds", localizer)


def test_it_says_where_boxes_were_learned_from(localizer):
    assert "trained from class labels alone" in model_card("birds", localizer)
    settings = {"warmup": {"teacher": "corrections:file=boxes.csv"}}
    corrected = localizer.replace(record=TrainingRecord(settings, stages=["classifier", "warmup"]))
    card = model_card("birds", corrected)
    assert "not weakly supervised" in card and "labels alone" not in card
