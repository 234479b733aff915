import numpy as np
import pytest

from gc_net import presets
from gc_net.generators.learned import LearnedGenerator
from gc_net.generators.model import ModelGenerator


def test_papers_and_authors_weights_of_the_losses():
    assert presets.get("paper").loss_weights["model"] == (1.0, 2.5, 1.0)
    assert presets.get("reference").loss_weights["model"] == (2.5, 1.0, 1.0)
    for name in ("paper", "reference"):
        assert presets.get(name).loss_weights["learned"] == (1.0, 1.0, 1.0)


def test_authors_learned_rectangle_has_half_extents_and_so_a_quarter_of_the_area():
    generator = LearnedGenerator("rectangle", 16, weights=None)
    assert presets.get("reference").weights_for(generator, 200) == (0.25, 1.0, 1.0)
    assert presets.get("paper").weights_for(generator, 200) == (1.0, 1.0, 1.0)
    generator = LearnedGenerator("rotated_ellipse", 16, weights=None)
    assert presets.get("reference").weights_for(generator, 200) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("kind", [LearnedGenerator, ModelGenerator])
def test_a_scaled_area_grows_with_the_logarithm_of_the_classes(kind):
    generator, preset = kind("rotated_ellipse", 16), presets.get("scaled")
    assert preset.weights_for(generator, 200) == (2.5, 1.0, 1.0)
    alphas = [preset.weights_for(generator, count)[0] for count in (40, 50, 1000)]
    np.testing.assert_allclose(alphas, [1.74, 1.85, 3.26], atol=0.005)
    for name in ("paper", "reference"):
        weights = [presets.get(name).weights_for(generator, count) for count in (40, 1000)]
        assert weights[0] == weights[1]


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
