"""Runs code around the later import of another package.

TensorFlow takes seconds to import, so this package imports it only when it is needed. This module
registers what must happen at that moment.
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
        sys.meta_path.remove(self)  # the next finders work as if this one did not exist
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
    """Run the first import of a package inside a context manager.

    Args:
        name: The package. If it is already imported, nothing happens.
        context: Called without arguments when the import begins.
    """
    if name not in sys.modules:
        sys.meta_path.insert(0, _Around(name, context))
