"""Text in cells of CSV files, so that no spreadsheet takes it for a formula."""

import re

_FORMULA = re.compile(r"'*[=+\-@]")
_NEUTRAL = re.compile(r"'+[=+\-@]")


def neutralized(text: str) -> str:
    """Return text that a spreadsheet shows: `'` goes before one that starts with =, +, - or @.

    One that starts so behind `'` gets another, so that `restored` gives back what there was.
    """
    return f"'{text}" if _FORMULA.match(text) else text


def restored(text: str) -> str:
    """Return what `neutralized` was given."""
    return text[1:] if _NEUTRAL.match(text) else text
