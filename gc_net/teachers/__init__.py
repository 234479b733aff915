"""Teachers: who shows a detector, before its own training, where objects are.

None reads a box but `corrections`, which says so in its name and is never on by default.

| name | what it teaches |
|---|---|
| `descriptors` | the patch that deep descriptor transforming finds, Wei et al. 2017 |
| `class_maps` | what speaks for the classes that the classifier sees, Zhou et al. 2016 |
| `silhouettes` | that patch, or another teacher's, cut out by the colours of the image (GrabCut) |
| `model` | the shapes that a trained model places in the image and in its mirror image |
| `segmenter` | what a small network has learned from other images' silhouettes |
| `committee` | the mean or median of several teachers, weighed by how far they agree |
| `corrections` | boxes that someone has corrected: no longer weak supervision |

A teacher is named by its name and those of its settings that differ from its defaults,
`silhouettes:size=192`; by the folder of a trained model; or as a committee,
`descriptors+silhouettes`. Brackets keep together: `(descriptors+silhouettes):share=2+segmenter`. A
setting that a teacher does not have is that of its `source`: `silhouettes:weights=classifier`.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gc_net.registry import Registry

if TYPE_CHECKING:
    from gc_net.teachers.base import Teacher

TEACHERS = Registry(
    "teacher",
    {
        "descriptors": "gc_net.teachers.descriptors:Descriptors",
        "class_maps": "gc_net.teachers.class_maps:ClassMaps",
        "silhouettes": "gc_net.teachers.silhouettes:Silhouettes",
        "segmenter": "gc_net.teachers.segmenter:Segmenter",
        "model": "gc_net.teachers.model:Model",
        "committee": "gc_net.teachers.committee:Committee",
        "corrections": "gc_net.teachers.corrections:Corrections",
    },
)


def get(name: "str | Teacher") -> "Teacher":
    """Return the `Teacher` that `name` describes; a teacher passes through.

    Example:
        teacher = gc_net.teachers.get("descriptors:share=0.3+silhouettes:size=160+runs/first/model")
        coefficients, weights = teacher.targets(lesson)
    """
    if not isinstance(name, str):
        return name
    if len(_split(name, "+")) > 1 and not os.path.isdir(name):
        name = f"({name})"
    name, *options = _split(name, ":")
    while options and "=" not in options[0]:  # a path may have a colon, too
        name += f":{options.pop(0)}"
    values = dict(option.split("=", 1) for option in options)
    if name.startswith("("):
        name, values = "committee", {"members": tuple(_split(name[1:-1], "+")), **values}
    elif name not in TEACHERS:
        name, values = "model", {"folder": name, **values}
    teacher = TEACHERS.get(name)
    fields = {field.name: field for field in dataclasses.fields(teacher)}
    if "source" in fields:
        source = values.pop("source", fields["source"].default)
        if source.startswith("(") and len(_split(source[1:-1], "+")) == 1:
            source = source[1:-1]
        values["source"] = ":".join(
            [source, *(f"{key}={values.pop(key)}" for key in [*values] if key not in fields)]
        )
    return teacher.from_dict({key: _typed(key, text, fields) for key, text in values.items()})


def upgraded(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a warm-up that an earlier version recorded, as they are now called.

    Args:
        settings: Dict. That of a current version is returned as it is.
    """
    settings = dict(settings)
    old = {name: settings.pop(name) for name in _OLD_DEFAULTS if name in settings}
    if not old:
        return settings
    old = {**_OLD_DEFAULTS, **old}
    teacher, options = settings.get("teacher", "descriptors"), []
    if teacher == "descriptors":
        if old["silhouettes"]:
            teacher = "silhouettes"
        renamed = {"descriptors": "weights", "descriptor_size": "image_size"}
        renamed |= {"descriptor_images": "fit_images", "upright": "upright"}
        options = [
            f"{renamed[name]}={str(old[name]).lower()}"
            for name in renamed
            if old[name] != _OLD_DEFAULTS[name]
        ]
    else:
        options = [f"keeps={old['teacher_keeps']:g}"]  # which no model has any more
    settings["teacher"] = ":".join([teacher, *options])
    return settings


_OLD_DEFAULTS = {
    "teacher_keeps": 0.8,
    "descriptors": "backbone",
    "descriptor_size": 224,
    "descriptor_images": 1000,
    "silhouettes": False,
    "upright": False,
}


def _split(text, mark):
    """Return the parts of `text` between `mark`s that stand outside of all brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == mark and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _typed(name, text, fields):
    if name not in fields:
        return text  # the error is that of `Settings.from_dict`, which lists the settings
    kind = fields[name].type
    if not isinstance(text, str):
        return text
    if kind is bool:
        if text not in ("true", "false"):
            raise ValueError(f"`{name}` must be true or false. Received: {name}={text!r}")
        return text == "true"
    try:
        return kind(text)
    except ValueError:
        raise ValueError(
            f"`{name}` must be of type {kind.__name__}. Received: {name}={text!r}"
        ) from None
