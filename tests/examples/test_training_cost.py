import os
import re

import pytest

from examples.training_cost import RECIPES, Recipe, forward_flops, training_flops

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.parametrize(
    "backbone, size, published",
    # Multiply-adds in billions, as commonly given for the networks without a classifier's head.
    [("vgg16", 224, 15.3), ("efficientnet_lite0", 224, 0.39)],
)
def test_operations_are_two_a_multiplication_and_as_published(backbone, size, published):
    assert forward_flops(backbone, size) / 2e9 == pytest.approx(published, rel=0.03)


def test_classifiers_of_folds_see_all_images_but_their_own():
    plain = Recipe("plain", "tiny", 32, 100, 2, 0, 1)
    folds = Recipe("folds", "tiny", 32, 100, 2, 5, 1)
    assert training_flops(plain, 1.0) == (2 * 100 * 3, 100 * 7)
    assert training_flops(folds, 1.0)[0] == 2 * (100 + 5 * 80) * 3
    warm = Recipe("warm", "tiny", 32, 100, 2, 0, 1, warmup_epochs=4)
    assert training_flops(warm, 1.0)[1] == 100 * (7 + 4 * 3)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_settings_are_those_of_the_recipes(recipe):
    with open(os.path.join(ROOT, "recipes", f"{recipe.name}.flags"), encoding="utf-8") as file:
        flags = dict(re.findall(r"^--(\w+)=(\S+)$", file.read(), re.MULTILINE))
    assert flags["backbone"] == recipe.backbone
    assert int(flags["image_size"]) == recipe.image_size
    trained = flags["classifier_recipe"] != "none"
    assert int(flags.get("classifier_epochs", 0)) * trained == recipe.classifier_epochs
    assert int(flags.get("classifier_num_folds", 0)) == recipe.num_folds
    assert int(flags["detector_epochs"]) == recipe.detector_epochs
    assert int(flags.get("warmup_epochs", 0)) == recipe.warmup_epochs
