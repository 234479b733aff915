"""What `import gc_net` gives, and what it costs."""

import ast
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import gc_net
from gc_net.serializable import SERIALIZABLE

ROOT = Path(__file__).parent.parent


def run(code, *arguments):
    """Run code in a new process, and return what it prints."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_imports_no_keras():
    assert run("import sys, gc_net; print({'keras', 'tensorflow'} & set(sys.modules))") == "set()"


@pytest.mark.parametrize("name", [name for name in gc_net.__all__ if name[0] != "_"])
def test_every_name_that_is_offered_is_there(name):
    assert getattr(gc_net, name).__name__ == name
    assert name in dir(gc_net)


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert not hasattr(gc_net, "no_such_thing")


def registered_classes():
    """Return {class: module} of all classes that a decorator registers with Keras."""
    found = {}
    for path in (ROOT / "gc_net").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            decorators = getattr(node, "decorator_list", [])
            if any("register_keras_serializable" in ast.unparse(each) for each in decorators):
                assert isinstance(node, ast.ClassDef) and node.name not in found
                found[node.name] = module
    return found


def test_every_class_that_a_model_file_can_name_has_a_stand_in():
    found = registered_classes()
    assert found.keys() == set(SERIALIZABLE)
    for name, module in found.items():
        assert SERIALIZABLE.get(name).__module__ == module
        assert keras.saving.get_registered_name(SERIALIZABLE.get(name)) == f"gc_net>{name}"


@pytest.mark.parametrize("imports", ["gc_net, keras", "keras, gc_net"])
def test_a_model_is_loaded_by_keras_in_another_process_after_importing_gc_net_alone(
    imports, tmp_path
):
    generator = gc_net.ModelGenerator("rotated_ellipse", image_size=8)
    inputs = keras.Input([5])
    model = keras.Model(inputs, generator(inputs))
    model.save(tmp_path / "model.keras")
    code = (
        f"import sys, {imports}; import numpy as np; "
        "assert 'gc_net.generators' not in sys.modules; "
        "model = keras.saving.load_model(sys.argv[1]); "
        "np.save(sys.argv[2], model(np.load(sys.argv[3])))"
    )
    coefficients = np.array([[0.5, 0.45, 0.6, 0.3, 0.4]], "float32")
    np.save(tmp_path / "coefficients.npy", coefficients)
    files = [tmp_path / name for name in ("model.keras", "masks.npy", "coefficients.npy")]
    run(code, *files)
    np.testing.assert_array_equal(np.load(tmp_path / "masks.npy"), model(coefficients))
