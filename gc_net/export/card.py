"""The model card: what a model is, what it was trained on, how well it does, how to call it."""

import json
import os

from gc_net.evaluation.files import METRICS_FILE, evaluation_folder
from gc_net.evaluation.second_look import namer_size
from gc_net.version import __version__

CARD_FILE = "model_card.md"


def model_card(name, localizer, metrics=None, license_text=None, usage=""):
    """Return a model card in Markdown, without the folders of the machine that it is made on.

    Args:
        name: Name of the model.
        localizer: The `Localizer` that was exported.
        metrics: Dict of an evaluation, or None.
        license_text: Licence of the weights, or None where it was not stated.
        usage: Markdown about the exported files.
    """
    model = localizer.model
    parameters = sum(int(weight.value.shape.num_elements()) for weight in model.weights)
    lines = [
        f"# {name}",
        "",
        "Weakly supervised object localization: trained from class labels alone, it draws one "
        f"shape around the object of an image and names its class. Made with gc_net {__version__}.",
        "",
        "| | |",
        "|---|---|",
        f"| shape | {localizer.shape.name} ({', '.join(localizer.shape.coefficient_names)}) |",
        f"| image size | {_frame(localizer)} |",
        f"| detector | {model.detector.backbone.name}, {model.detector.head_name} head |",
        f"| classifier | {model.classifier.backbone.name}, {len(localizer.class_names)} classes |",
        f"| generator | {model.generator.kind} |",
        f"| second look | {_look(model.look)} |",
        f"| namer | {_namer(model)} |",
        f"| parameters | {parameters:,} |",
        f"| licence | {license_text or 'not stated'} |",
        "",
        "## How to call it",
        "",
        usage.strip(),
        "",
        "## How well it does",
        "",
        *_measured_otherwise(metrics, model),
        *_block(without_folders(metrics), "It came without an evaluation."),
        "",
        "## Data and training",
        "",
        *_block(without_folders(localizer.info), "It came without a record of its training."),
        "",
        "## What to expect",
        "",
        "It finds one object an image, whether there is none or several. The confidence ranks "
        "localizations and is no calibrated probability: look at images with a low one.",
        "",
    ]
    return "\n".join(lines)


def find_metrics(model_dir):
    """Return the metrics that came with a model, or else what `gc-net evaluate` wrote for it.

    None where there are neither.
    """
    for folder in (model_dir, evaluation_folder(model_dir)):
        path = os.path.join(folder, METRICS_FILE)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return json.load(file)
    return None


def without_folders(record):
    """Return a record whose absolute paths are cut to their last part.

    Where a dataset or a run was on the machine that trained a model says nothing elsewhere.
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


def _frame(localizer):
    squashed, seen = localizer.resize_size, localizer.model.detector.image_size
    central = f", of which the central {seen} × {seen} are seen" if seen < squashed else ""
    return f"{squashed} × {squashed}, squashed{central}"


def _look(look):
    return f"a region of {look:g} × the longer side of the shape's box" if look else "none"


def _namer(model):
    if not model.look:
        return "none"
    if model.namer is None:
        return "none: the classifier looks twice"
    return f"{model.namer.backbone.name}, of {_close_ups(model.namer.image_size)}"


def _close_ups(size):
    return f"close-ups of {size} × {size}"


def _measured_otherwise(metrics, model):
    """Return a paragraph that says so where the metrics are, or may be, of another second look."""
    if not metrics:
        return []
    settings = metrics.get("settings", {})
    own = model.look, namer_size(model, model.look)
    measured = settings.get("look", own[0]), settings.get("namer_size", own[1])
    if measured != own:
        said = (
            f"Measured with another second look ({_whole_look(*measured)}) than this export has "
            f"({_whole_look(*own)})."
        )
    elif own[1] and "namer_size" not in settings:
        said = "The metrics do not say whether they were measured with the namer or without."
    else:
        return []
    return [
        f"{said} Boxes do not depend on it, and neither does CorLoc; classes do, and so do ClsErr "
        "and LocErr.",
        "",
    ]


def _whole_look(look, namer_size):
    if not look:
        return _look(look)
    who = f"a namer, which sees {_close_ups(namer_size)}" if namer_size else "the classifier"
    return f"{_look(look)}, named by {who}"


def _block(content, otherwise):
    if not content:
        return [otherwise]
    return ["```json", json.dumps(content, indent=1, ensure_ascii=False), "```"]
