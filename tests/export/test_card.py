"""What a model card says, whatever the format of the export."""

import json
import re

import pytest

from gc_net.classifier import Classifier
from gc_net.export.card import model_card
from gc_net.localizer import Localizer, load
from gc_net.saving import save_model
from tests.prediction.models import CLASS_NAMES, tiny_model

INFO = {
    "config": {"data": {"dataset": "cub", "data_dir": "/home/me/CUB_200_2011"}},
    "environment": {"command": ["/home/me/tools/train.py", "--data_dir=/home/me/CUB_200_2011"]},
}


@pytest.fixture(scope="module")
def localizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save_model(folder, tiny_model(), CLASS_NAMES, INFO)
    return load(folder)


def blocks(card):
    """Return the JSON blocks of a card: metrics and training."""
    return [json.loads(block) for block in re.findall(r"```json\n(.*?)```", card, re.DOTALL)]


def test_it_does_not_tell_where_the_model_was_trained(localizer):
    card = model_card("birds", localizer, {"corloc": 12.5, "model": "/home/me/runs/birds/model"})
    assert "/home/me" not in card
    metrics, training = blocks(card)
    assert metrics == {"corloc": 12.5, "model": "model"}
    assert training["config"]["data"] == {"dataset": "cub", "data_dir": "CUB_200_2011"}
    assert training["environment"]["command"] == ["train.py", "--data_dir=CUB_200_2011"]


@pytest.mark.parametrize("measured", [0.0, 1.5, None])
@pytest.mark.parametrize("exported", [0.0, 1.5])
def test_it_says_where_its_errors_are_those_of_another_second_look(
    localizer, monkeypatch, measured, exported
):
    monkeypatch.setattr(localizer.model, "look", exported)
    settings = {} if measured is None else {"look": measured, "namer_size": None}
    card = model_card("birds", localizer, {"cls_err_top1": 12.5, "settings": settings})
    section = card.partition("## How well it does")[2].partition("```")[0]
    assert ("another second look" in section) == (measured not in (None, exported))


@pytest.fixture(scope="module")
def namer():
    return Classifier("tiny", len(CLASS_NAMES), 44, weights=None, name="namer")


def with_namer(localizer, namer, look):
    model = localizer.model.naming(localizer.model.classifier, look, namer)
    return Localizer(model, CLASS_NAMES)


def test_it_names_a_namer_only_where_there_is_a_second_look(localizer, namer):
    def row(namer, look):
        card = model_card("birds", with_namer(localizer, namer, look))
        return re.search(r"^\| namer \| (.*) \|$", card, re.MULTILINE).group(1)

    assert row(None, 0.0) == row(namer, 0.0) == "none"
    assert row(None, 1.5) == "none: the classifier looks twice"
    assert row(namer, 1.5) == "tiny, of close-ups of 44 × 44"


@pytest.mark.parametrize("exported", [None, "namer"])
@pytest.mark.parametrize(
    ("settings", "said_without", "said_with"),
    [
        ({"look": 1.5, "namer_size": 44}, "named by a namer, which sees close-ups of 44 × 44", ""),
        ({"look": 1.5, "namer_size": None}, "", r"\(a region .*, named by the classifier\)"),
        ({"look": 1.5, "namer_size": 64}, "of 64 × 64", "of 64 × 64.*of 44 × 44"),
        ({"look": 1.5}, "", "do not say whether they were measured with the namer"),
        ({}, "", "do not say whether they were measured with the namer"),
        ({"look": 0.0}, r"another second look \(none\)", r"another second look \(none\)"),
    ],
)
def test_it_says_where_its_errors_are_those_of_another_namer(
    localizer, namer, exported, settings, said_without, said_with
):
    looking = with_namer(localizer, namer if exported else None, 1.5)
    card = model_card("birds", looking, {"cls_err_top1": 12.5, "settings": settings})
    section = card.partition("## How well it does")[2].partition("```")[0].strip()
    expected = said_with if exported else said_without
    assert re.search(expected, section)
    assert bool(section) == bool(expected)


def test_of_a_model_without_an_evaluation_says_that_there_is_none(localizer):
    assert "It came without an evaluation." in model_card("birds", localizer)
