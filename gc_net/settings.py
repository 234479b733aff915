"""Settings as frozen dataclasses, from which the tools make their flags.

Each attribute's text under `Attributes:` is also the help of its flag, so a setting is described in
one place.
"""

import dataclasses
import inspect
import math
import re
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Self


def setting(
    default: Any,
    choices: Iterable[str] | None = None,
    low: float | None = None,
    high: float | None = None,
    known: Iterable[str] = (),
    flag: str | None = None,
) -> Any:
    """Return a dataclass field that says which values are allowed.

    Args:
        default: Default value.
        choices: The allowed values.
        low, high: Range of a number.
        known: Names that the help of its flag lists, if others are allowed as well.
        flag: Whole name of its flag; by default the names of its section and of the setting.
    """
    allowed = {"choices": choices, "low": low, "high": high, "known": known, "flag": flag}
    return dataclasses.field(default=default, metadata=allowed)


class Settings:
    """The base class of settings, with checks and conversion to and from plain dicts."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, allowed = getattr(self, field.name), field.metadata
            check_finite(field.name, value)
            if value is None or not allowed:
                continue
            if allowed["choices"] and value not in allowed["choices"]:
                raise ValueError(
                    f"`{field.name}` must be one of {', '.join(allowed['choices'])}. "
                    f"Received: {field.name}={value!r}"
                )
            too_low = allowed["low"] is not None and value < allowed["low"]
            if too_low or (allowed["high"] is not None and value > allowed["high"]):
                high = "" if allowed["high"] is None else f" and at most {allowed['high']}"
                raise ValueError(
                    f"`{field.name}` must be at least {allowed['low']}{high}. "
                    f"Received: {field.name}={value!r}"
                )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build from a dict, e.g. of a config.json; an unknown name is an error."""
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = [name for name in values if name not in known]
        if unknown:
            raise ValueError(
                f"{cls.__name__} has no setting {', '.join(map(repr, unknown))}. "
                f"Its settings: {', '.join(known)}."
            )
        sections = {
            field.name: field.type for field in dataclasses.fields(cls) if is_section(field)
        }
        return cls(
            **{
                name: sections[name].from_dict(value) if name in sections else value
                for name, value in values.items()
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a nested dict of plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def descriptions(cls) -> dict[str, str]:
        """Return the docstrings' text about each attribute, as one line each."""
        found = {}
        for kind in reversed(cls.__mro__):
            _, _, text = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")
            entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", text, flags=re.MULTILINE)
            found |= {name: " ".join(lines.split()) for name, lines in entries}
        return found


def check_finite(name: str, value: Any) -> None:
    """Raise if a setting is NaN or infinite, which a comparison with a range could miss."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"`{name}` must be a finite number. Received: {name}={value}")


def is_section(field: dataclasses.Field) -> bool:
    """Return whether a dataclass field holds settings of its own."""
    return inspect.isclass(field.type) and issubclass(field.type, Settings)


def flag_name(field: dataclasses.Field, prefix: str = "") -> str:
    """Return the name of a setting's flag; `prefix` is that of its section."""
    return (field.metadata or {}).get("flag") or prefix + field.name


def plain_type(field: dataclasses.Field) -> type:
    """Return the type of a dataclass field without its `| None`."""
    if isinstance(field.type, types.UnionType):
        return next(t for t in typing.get_args(field.type) if t is not types.NoneType)
    return field.type


def read_pairs(text: str, name: str) -> dict[str, int | float | str]:
    """Return `"a=1,b=x"` as a dict; numbers become numbers.

    Args:
        name: Of the setting, for the error.
    """
    pairs = {}
    for item in filter(None, text.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise ValueError(
                f"`{name}` must be name=value pairs separated by commas. Received: {text!r}"
            )
        pairs[key.strip()] = _number(value.strip())
        check_finite(f"{name}: {key.strip()}", pairs[key.strip()])
    return pairs


def read_duration(text: str) -> float:
    """Return the seconds of `"90s"`, `"15m"` or `"2h"`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh])", text.strip().lower())
    if found is None or not float(found[1]):
        raise ValueError(
            "A time must be a number above zero and its unit, s, m or h, e.g. 90s, 15m or 2h. "
            f"Received: {text!r:.100}"
        )
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


def _number(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
