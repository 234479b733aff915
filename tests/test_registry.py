import subprocess
import sys

import pytest

from gc_net.registry import Registry


def test_unknown_name_lists_the_known_ones():
    registry = Registry("shape", {"circle": "math:pi", "square": "math:e"})
    with pytest.raises(ValueError, match=r"Unknown shape 'star'. Known ones: circle, square"):
        registry.get("star")


def test_entry_is_imported_on_first_use():
    registry = Registry("constant", {"pi": "math:pi"})
    assert registry.get("pi") == pytest.approx(3.14159, abs=1e-5)


def test_entry_may_be_the_object_itself():
    assert Registry("constant", {"three": 3}).get("three") == 3


def test_names_can_be_listed_without_importing_tensorflow():
    code = (
        "import sys, gc_net;"
        "from gc_net import backbones, datasets, generators, shapes;"
        "assert 'rotated_ellipse' in shapes.SHAPES and 'cub' in datasets.DATASETS;"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_entry_is_registered_for_a_while_or_for_good():
    registry = Registry("constant", {"three": 3})
    with registry.register("pi", "math:pi"):
        assert registry.get("pi") == pytest.approx(3.14159, abs=1e-5) and "pi" in registry
    assert registry.names == ("three",)
    registry.register("four", 4)
    assert registry.get("four") == 4


def test_a_name_that_is_taken_is_refused():
    registry = Registry("constant", {"three": 3})
    with pytest.raises(ValueError, match="There is a constant called 'three' already"):
        registry.register("three", 33)
    assert registry.get("three") == 3
