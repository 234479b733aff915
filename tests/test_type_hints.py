"""Public functions and classes say what they take and what they return."""

import importlib
import inspect
import pkgutil

import gc_net

# Without types so far. Whoever gives one of them its types takes it off this list.
UNTYPED = (
    "gc_net.export",
    "gc_net.prediction.graph",
    "gc_net.serving",
    "gc_net.stages.detector",
    "gc_net.stages.warmup",
    "gc_net.teachers",
)


def public_modules():
    for found in pkgutil.walk_packages(gc_net.__path__, "gc_net."):
        if not any(part.startswith("_") for part in found.name.split(".")):
            yield importlib.import_module(found.name)


def own(module):
    """Yield the public functions and classes that a module defines itself."""
    for name, value in vars(module).items():
        is_code = inspect.isfunction(value) or inspect.isclass(value)
        if is_code and not name.startswith("_") and value.__module__ == module.__name__:
            yield value


def functions(value):
    """Yield a function, or the public methods of a class that none of its bases declares.

    What a base class declares has its types there: `Stage` says what `batches` of every stage
    returns, and Keras what `call` is given.
    """
    if inspect.isfunction(value):
        yield value
        return
    for name, member in vars(value).items():
        member = inspect.unwrap(getattr(member, "__func__", getattr(member, "fget", member)))
        declared = name != "__init__" and any(name in vars(base) for base in value.__mro__[1:])
        # A dataclass writes its own `__init__`, which is of no file; a lambda cannot have types.
        written = inspect.isfunction(member) and member.__code__.co_filename != "<string>"
        written = written and member.__name__ != "<lambda>"
        if written and not declared and (name == "__init__" or not name.startswith("_")):
            yield member


def missing(function):
    """Return the names of the arguments without a type, and "return" where that has none."""
    named = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    if function.__name__ != "__init__":
        named.append("return")
    return [name for name in named if name not in function.__annotations__]


def test_all_public_functions_have_type_hints():
    found = {
        f"{module.__name__}:{function.__qualname__}": missing(function)
        for module in public_modules()
        if not f"{module.__name__}.".startswith(tuple(f"{name}." for name in UNTYPED))
        for value in own(module)
        for function in functions(value)
        if missing(function)
    }
    lines = [f"{name}: {', '.join(names)}" for name, names in found.items()]
    assert not lines, "No types are given in\n" + "\n".join(lines)


def test_a_function_without_types_is_found():
    class Example:
        def __init__(self, given: int, other):
            pass

        def typed(self, given: int) -> int:
            return given

        @classmethod
        def untyped(cls, given):
            return given

        @property
        def short(self):
            return 1

        def _private(self, given):
            return given

    found = {function.__name__: missing(function) for function in functions(Example)}
    assert found == {
        "__init__": ["other"],
        "typed": [],
        "untyped": ["given", "return"],
        "short": ["return"],
    }
