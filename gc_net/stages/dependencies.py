"""Dependencies of stages: the settings that each reads, and the stages whose results it needs."""

import types
from collections.abc import Iterable, Mapping
from typing import Any

from gc_net.methods import GC_NET
from gc_net.settings import Settings
from gc_net.stages import STAGES
from gc_net.stages.base import Stage, is_trained

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


def asked_for(config: Settings) -> dict[str, Stage]:
    """Return the trainings that the settings ask for, by name."""
    kinds = [STAGES.get(name) for name in STAGES]
    if config.classifier.method != GC_NET:
        kinds = [kind for kind in kinds if kind.of_all_methods]
    return {unit.name: unit for kind in kinds for unit in kind.units(config)}


def batch_sizes(config: Settings) -> dict[str, int]:
    """Return the number of images in a step of each stage, by what the stage's flags begin with.

    A training on fewer images stops before it begins.
    """
    return {
        unit.section: unit.own_settings(config).batch_size
        for unit in asked_for(config).values()
        if reads_images(unit) and is_trained(unit.own_settings(config))
    }


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
