"""Look-up by name, which imports only the entries that are used."""

import contextlib
import importlib
from collections.abc import Iterator, Mapping
from typing import Any


class Registry:
    """Maps names to objects that are imported on first use.

    Entries are `"module:attribute"` strings, so that a command line can list the known names
    in its `--help` without paying for a TensorFlow import.

    Args:
        kind: What the entries are, in the singular; used in error messages.
        entries: Mapping of name to `"module:attribute"`, or to the object itself.

    Example:
        SHAPES = Registry("shape", {"rectangle": "gc_net.shapes.rectangle:Rectangle"})
        SHAPES.get("rectangle")
    """

    def __init__(self, kind: str, entries: Mapping[str, Any]):
        self.kind = kind
        self._entries = dict(entries)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def get(self, name: str) -> Any:
        """Return the object registered as `name`."""
        if name not in self._entries:
            known = ", ".join(self._entries)
            raise ValueError(f"Unknown {self.kind} {name!r}. Known ones: {known}.")
        target = self._entries[name]
        if isinstance(target, str):
            module, _, attribute = target.partition(":")
            target = getattr(importlib.import_module(module), attribute)
            self._entries[name] = target
        return target

    def register(self, name: str, target: Any) -> contextlib.ExitStack:
        """Add an entry of another package, or an entry for the time of a `with` block.

        Args:
            name: A name that is not taken.
            target: The object, or `"module:attribute"`.

        Returns:
            A context manager that removes the entry in the end. Without `with` the entry stays.

        Example:
            SHAPES.register("diamond", Diamond)
            with SHAPES.register("star", Star):
                ...
        """
        if name in self._entries:
            raise ValueError(f"There is a {self.kind} called {name!r} already. Choose another.")
        self._entries[name] = target
        removal = contextlib.ExitStack()
        removal.callback(self._entries.pop, name, None)
        return removal
