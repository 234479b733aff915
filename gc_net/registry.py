"""Look-up by name, without importing what is not asked for."""

import importlib


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

    def __init__(self, kind, entries):
        self.kind = kind
        self._entries = dict(entries)

    @property
    def names(self):
        return tuple(self._entries)

    def __contains__(self, name):
        return name in self._entries

    def __iter__(self):
        return iter(self._entries)

    def get(self, name):
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
