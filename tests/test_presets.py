import numpy as np
import pytest

from gc_net import presets


def weights(preset, kind, shape="rotated_ellipse", num_classes=200):
    found = presets.get(preset).loss_weights(kind, shape, num_classes)
    assert list(found) == ["area", "object", "background"]
    return tuple(found.values())


def test_papers_and_authors_weights_of_the_losses():
    assert weights("paper", "model") == (1.0, 2.5, 1.0)
    assert weights("reference", "model") == (2.5, 1.0, 1.0)
    for name in ("paper", "reference"):
        assert weights(name, "learned") == (1.0, 1.0, 1.0)


def test_authors_learned_rectangle_has_half_extents_and_so_a_quarter_of_the_area():
    assert weights("reference", "learned", "rectangle") == (0.25, 1.0, 1.0)
    assert weights("paper", "learned", "rectangle") == (1.0, 1.0, 1.0)
    assert weights("reference", "learned") == (1.0, 1.0, 1.0)


def test_a_generator_of_ones_own_has_the_weights_of_the_model_generator():
    for name in presets.PRESETS:
        assert weights(name, "own") == weights(name, "model")


@pytest.mark.parametrize("kind", ["learned", "model"])
def test_a_scaled_area_grows_with_the_logarithm_of_the_classes(kind):
    assert weights("scaled", kind) == (2.5, 1.0, 1.0)
    alphas = [weights("scaled", kind, num_classes=count)[0] for count in (40, 50, 1000)]
    np.testing.assert_allclose(alphas, [1.74, 1.85, 3.26], atol=0.005)
    for name in ("paper", "reference"):
        few, many = (weights(name, kind, num_classes=count) for count in (40, 1000))
        assert few == many


def test_authors_schedule_compounds():
    preset = presets.get("reference")
    factors = [preset.rate_factor(epoch, 30) for epoch in range(30)]
    assert factors[:22] == [1.0] * 22
    np.testing.assert_allclose(
        factors[22:], [0.9, 0.72, 0.504, 0.302, 0.151, 0.060, 0.018, 0.0036], rtol=0.02
    )


def test_papers_rate_is_constant():
    assert presets.get("paper").rate_factor(29, 30) == 1.0


def test_unknown_preset_lists_the_known_ones():
    with pytest.raises(ValueError, match="Known ones: paper, reference, scaled"):
        presets.get("authors")


def test_paper_and_authors_parametrize_each_coefficient_by_a_sigmoid():
    names = {name: presets.get(name).parametrization for name in presets.PRESETS}
    assert names == {"paper": "sigmoid", "reference": "sigmoid", "scaled": "seamless"}
