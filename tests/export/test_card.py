"""What a model card says, whatever the format of the export."""

import json
import re

import pytest

from gc_net.export.card import model_card
from gc_net.inference.localizer import load
from gc_net.saving import save_model
from tests.inference.models import CLASS_NAMES, tiny_model

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
    settings = {} if measured is None else {"look": measured}
    card = model_card("birds", localizer, {"cls_err_top1": 12.5, "settings": settings})
    section = card.partition("## How well it does")[2].partition("```")[0]
    assert ("another second look" in section) == (measured not in (None, exported))


def test_of_a_model_without_an_evaluation_says_that_there_is_none(localizer):
    assert "It came without an evaluation." in model_card("birds", localizer)
