"""Dependencies of stages: the settings that each reads, and the stages whose results it needs."""

import types
from collections.abc import Iterable, Mapping
from typing import Any

from gc_net.settings import Settings
from gc_net.stages import STAGES
from gc_net.stages.base import Stage

COMMON = ("seed", "mixed_precision", "deterministic")


def settings_read(stage: type[Stage]) -> set[str]:
    """Return the names of all settings that a stage's result depends on."""
    names = {*COMMON, stage.section, *stage.reads}
    for need in stage.needs:
        names |= settings_read(STAGES.get(need))
    return names


def reads_images(unit: Stage) -> bool:
    """Return whether the result of a stage depends on the training images."""
    return "data" in settings_read(type(unit))


def needed(unit: Stage, units: Mapping[str, Stage]) -> list[Stage]:
    """Return those of `units` whose results `unit` uses."""
    kinds = tuple(STAGES.get(name) for name in unit.needs)
    return [other for other in units.values() if type(other) in kinds or other.name == unit.follows]


def in_order(asked: Iterable[Stage], units: Mapping[str, Stage]) -> list[Stage]:
    """Return `asked` and all units that they need, each after those it needs."""
    plan = []

    def visit(unit):
        if unit not in plan:
            for other in needed(unit, units):
                visit(other)
            plan.append(unit)

    for unit in asked:
        visit(unit)
    return plan


def recorded_settings(config: Settings, stage: type[Stage]) -> dict[str, Any]:
    """Return the settings that a stage's result depends on, for its record."""
    return _picked(config.to_dict(), settings_read(stage), dict)


def visible_settings(config: Settings, stage: type[Stage]) -> types.SimpleNamespace:
    """Return the same settings as an object for the stage, which has no others."""
    sections = {name: getattr(config, name) for name in config.__dataclass_fields__}

    def incomplete(found):
        return types.SimpleNamespace(**found)

    return types.SimpleNamespace(**_picked(sections, settings_read(stage), incomplete, vars))


def _picked(sections, names, partial, read=lambda section: section):
    """Return the sections called `names`; of `"section.setting"`, only that setting.

    Args:
        partial: Function of a dict to an incomplete section.
        read: Function of a section to its dict.
    """
    found, single = {}, {}
    for name in sorted(names):
        section, _, setting = name.partition(".")
        if not setting:
            found[section] = sections[section]
        else:
            single.setdefault(section, {})[setting] = read(sections[section])[setting]
    return {**{section: partial(settings) for section, settings in single.items()}, **found}
