"""Do something around the import of another package, whenever that import comes.

TensorFlow takes seconds to import, so this package does not import it before it is needed. What
must happen at that moment is said here instead.
"""

import contextlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable


class _Around(importlib.abc.MetaPathFinder):
    def __init__(self, name, context):
        self.name = name
        self.context = context

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)  # what comes next finds the package as if this was never there
        spec = importlib.util.find_spec(fullname)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                with self.context():
                    execute(module)

            spec.loader.exec_module = exec_module
        return spec


def around_import(
    name: str, context: Callable[[], contextlib.AbstractContextManager[object]]
) -> None:
    """Have the first import of a package run inside a context manager.

    Args:
        name: The package. Where it is imported already, nothing happens.
        context: Called without arguments when the import begins.
    """
    if name not in sys.modules:
        sys.meta_path.insert(0, _Around(name, context))
