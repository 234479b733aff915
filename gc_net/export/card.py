"""The model card: what a model is, its training data, its scores, and how to call it."""

import json
import os

from gc_net.evaluation.checks import renamed_settings
from gc_net.evaluation.files import METRICS_FILE, evaluation_folder
from gc_net.evaluation.second_look import second_classifier_size
from gc_net.version import __version__

CARD_FILE = "model_card.md"


def model_card(name, localizer, metrics=None, license_text=None, usage=""):
    """Return a model card in Markdown, without folders of the machine that writes it.

    Args:
        name: Name of the model.
        localizer: The `Localizer` that was exported.
        metrics: Dict of an evaluation, or None.
        license_text: Licence of the weights, or None if it was not stated.
        usage: Markdown about the exported files.
    """
    weights = [weight for part in localizer.parts.values() for weight in part.weights]
    parameters = sum(int(weight.value.shape.num_elements()) for weight in weights)
    detector, classifier = localizer.detector, localizer.classifier
    lines = [
        f"# {name}",
        "",
        f"{_supervision(localizer.record)} it draws one shape around the object of an image and "
        f"names its class. Made with gc_net {__version__}.",
        "",
        "| | |",
        "|---|---|",
        f"| shape | {localizer.shape.name} ({', '.join(localizer.shape.coefficient_names)}) |",
        f"| image size | {_frame(localizer)} |",
        f"| detector | {detector.backbone.name}, {detector.head_name} head |",
        f"| classifier | {classifier.backbone.name}, {len(localizer.class_names)} classes |",
        f"| generator | {localizer.generator.kind} |",
        f"| looks at the mirror image for a mean shape | {'yes' if localizer.mirror else 'no'} |",
        f"| second look | {_look(localizer.second_look)} |",
        f"| second classifier | {_second_classifier(localizer)} |",
        f"| parameters | {parameters:,} |",
        f"| licence | {license_text or 'not stated'} |",
        "",
        "## How to call it",
        "",
        usage.strip(),
        "",
        "## How well it does",
        "",
        *_measured_otherwise(metrics, localizer),
        *_block(without_folders(metrics), "It came without an evaluation."),
        "",
        "## Data and training",
        "",
        *_block(_recorded(localizer.record), "It came without a record of its training."),
        "",
        "## What to expect",
        "",
        "It finds one object in each image, even if there is none or several. The confidence ranks "
        "localizations and is no calibrated probability: look at images with a low confidence.",
        "",
    ]
    return "\n".join(lines)


def find_metrics(model_dir):
    """Return the metrics in a model's folder, or those of its evaluation, or None."""
    for folder in (model_dir, evaluation_folder(model_dir)):
        path = os.path.join(folder, METRICS_FILE)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return json.load(file)
    return None


def without_folders(record):
    """Return a record whose absolute paths are cut to their last part.

    The folders of a training's machine mean nothing elsewhere.
    """
    if isinstance(record, dict):
        return {name: without_folders(value) for name, value in record.items()}
    if isinstance(record, list):
        return [without_folders(value) for value in record]
    if not isinstance(record, str):
        return record
    flag, equals, value = record.rpartition("=")  # as in the command that was given
    if os.path.isabs(value):
        value = os.path.basename(os.path.normpath(value))
    return f"{flag}{equals}{value}"


def _supervision(record):
    warmup = record.settings.get("warmup", {})
    if "warmup" in record.stages and "corrections" in str(warmup.get("teacher")):
        return (
            "Object localization, not weakly supervised: trained from class labels and the boxes "
            "of some images,"
        )
    return "Weakly supervised object localization: trained from class labels alone,"


def _frame(localizer):
    squashed, seen = localizer.resize_size, localizer.image_size
    central = f", of which the central {seen} × {seen} are seen" if seen < squashed else ""
    return f"{squashed} × {squashed}, squashed{central}"


def _look(second_look):
    if not second_look:
        return "none"
    return f"a region of {second_look:g} × the longer side of the shape's box"


def _second_classifier(localizer):
    if not localizer.second_look:
        return "none"
    if localizer.second_classifier is None:
        return "none: the classifier looks twice"
    network = localizer.second_classifier
    return f"{network.backbone.name}, of {_close_ups(network.image_size)}"


def _close_ups(size):
    return f"close-ups of {size} × {size}"


def _recorded(record):
    recorded = without_folders(record.to_dict())
    return {name: value for name, value in recorded.items() if value}


def _measured_otherwise(metrics, localizer):
    """Return a paragraph that warns if the metrics are, or may be, of another second look."""
    if not metrics:
        return []
    settings = renamed_settings(metrics.get("settings", {}))
    own = localizer.second_look, second_classifier_size(localizer)
    measured = (
        settings.get("second_look", own[0]),
        settings.get("second_classifier_size", own[1]),
    )
    if measured != own:
        said = (
            f"Measured with another second look ({_whole_look(*measured)}) than this export has "
            f"({_whole_look(*own)})."
        )
    elif own[1] and "second_classifier_size" not in settings:
        said = "The metrics do not say whether they were measured with the second classifier."
    else:
        return []
    return [
        f"{said} Boxes do not depend on it, and neither does CorLoc; classes do, and so do ClsErr "
        "and LocErr.",
        "",
    ]


def _whole_look(second_look, size):
    if not second_look:
        return _look(second_look)
    who = f"a second classifier, which sees {_close_ups(size)}" if size else "the classifier"
    return f"{_look(second_look)}, by {who}"


def _block(content, otherwise):
    if not content:
        return [otherwise]
    return ["```json", json.dumps(content, indent=1, ensure_ascii=False), "```"]
