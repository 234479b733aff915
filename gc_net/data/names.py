"""Names of files as they may be shown."""

import re
from collections.abc import Iterable

# Control characters, line ends of all kinds, marks that change the direction of text, and code
# points that are no characters.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def printable(name: str) -> str:
    """Return a name on one line, with characters escaped that a terminal would obey."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), name)


def some_lines(items: Iterable[object], limit: int) -> list[str]:
    """Return the first few of `items` as indented lines, and a line with the number of others."""
    items = list(items)
    lines = [f"  {item}" for item in items[:limit]]
    return lines if len(items) <= limit else [*lines, f"  and {len(items) - limit:,} more"]


def some(items: Iterable[object], limit: int = 5) -> str:
    """Return the first few of `items` as text, and how many more there are."""
    items = [str(item) for item in items]
    text = ", ".join(items[:limit])
    return f"{text} and {len(items) - limit:,} more" if len(items) > limit else text
