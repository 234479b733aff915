"""Checks before a model is evaluated on a dataset."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gc_net.data.splits import DataError, Dataset, Split, Truth
from gc_net.evaluation.files import METRICS_FILE

GIVE_BOXES = (
    "Give boxes (for a folder: --boxes, a COCO .json, a .csv or a folder of Pascal VOC XMLs; "
    "docs/evaluation.md says what is in them)."
)

# Evaluations that differ in these cannot be compared; the last ones are in `settings`.
_MEASURED = ("protocol", "dataset", "split", "ten_crop", "limit", "images", "second_look")
_MEASURED += ("resize_size",)
# Names of settings in evaluations of earlier versions.
_RENAMED = {"look": "second_look", "namer_size": "second_classifier_size"}


def renamed_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `settings` of an evaluation under the names that they have now."""
    return {_RENAMED.get(name, name): value for name, value in settings.items()}


def check_alike(output_dir: str | os.PathLike, known: Mapping[str, Any]) -> None:
    """Raise if a folder holds an evaluation that was measured in another way.

    Args:
        output_dir: Folder to write to.
        known: What is known of the content of `metrics.json` before an evaluation.
    """
    try:
        with open(os.path.join(output_dir, METRICS_FILE), encoding="utf-8") as file:
            there = json.load(file)
    except (FileNotFoundError, ValueError):
        return  # no evaluation, or an unreadable one
    there, known = (
        {**metrics, **renamed_settings(metrics.get("settings", {}))} for metrics in (there, known)
    )
    if there.get("num_unreadable"):
        there.pop("images", None)  # only those that could be read; not known before the pass
    different = [
        f"{name} was {there[name]!r}, now {known[name]!r}"
        for name in _MEASURED
        if name in there and there[name] != known[name]
    ]
    if different:
        raise ValueError(
            f"{output_dir} holds an evaluation that was measured in another way: "
            f"{'; '.join(different)}. Give another folder (--output), or this one to replace it."
        )


def check_classes(class_names: Sequence[str], dataset: Dataset, split: Split) -> None:
    """Raise if a model's classes and the `Split` of a dataset do not belong together."""
    num_classes = len(class_names)
    if len(split.class_names) != num_classes:
        raise ValueError(
            f"The model has {num_classes} classes, the dataset {dataset.name!r} has "
            f"{len(split.class_names)}. Give the dataset the model was trained on."
        )
    for label, (ours, theirs) in enumerate(zip(class_names, split.class_names, strict=True)):
        if ours != theirs:
            raise ValueError(
                f"Class {label} is {ours!r} to the model and {theirs!r} in the dataset "
                f"{dataset.name!r}. Give the dataset the model was trained on, with its classes "
                "in the same order."
            )
    if len(split) == 0:
        raise DataError(f"The {split.name!r} split of the dataset {dataset.name!r} is empty.")


def check_truth(truth: Truth | None, dataset: Dataset, split: Split) -> None:
    """Raise if there are no boxes to compare predictions with."""
    if truth is None or not len(truth.boxes):
        raise DataError(
            f"The {split.name!r} split of the dataset {dataset.name!r} has no boxes, so there is "
            f"nothing to compare predicted ones with. {GIVE_BOXES}"
        )


def spread(num_images: int, limit: int | None) -> np.ndarray:
    """Return the indices of up to `limit` images, evenly spread, as splits are sorted by class."""
    if limit is None or limit >= num_images:
        return np.arange(num_images)
    if limit < 1:
        raise ValueError(f"`limit` must be at least 1. Received: {limit}")
    return np.arange(limit) * num_images // limit
