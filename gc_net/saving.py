"""Trained models as folders: `model.json` describes the model, `weights.npz` has its weights.

The files are readable, contain no pickles or code, and have half the size in half precision. A
folder holds a `Localizer`, or a single network that a stage has trained. Keras' own `.keras` files
work too (`GCNet.save`); they keep the optimizer's state, to resume training.
"""

import dataclasses
import glob
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gc_net.atomic_files import replaced_file
from gc_net.training_record import TrainingRecord
from gc_net.version import __version__
from gc_net.weights import (
    assign_weights,
    named_variables,
    save_weights_npz,
    stored_weights_npz,
)

if TYPE_CHECKING:
    from gc_net.backbones.network import Network
    from gc_net.localizer import Localizer

MODEL_FILE = "model.json"
WEIGHTS_FILE = "weights.npz"
_LARGEST_RESIZE = 1 << 13  # larger than any network sees, and 200 MB for an image
_WITH_WEIGHTS = ("Classifier", "Detector", "LearnedGenerator")


@dataclasses.dataclass(frozen=True)
class SavedModel:
    """A loaded network and what belongs to it.

    Attributes:
        model: A `Classifier` or a `Detector`.
        class_names: Names in label order.
        record: How it was trained.
    """

    model: "Network"
    class_names: tuple[str, ...]
    record: TrainingRecord


def model_folder(path: str | os.PathLike) -> str:
    """Return the folder that holds `model.json`: `path`, or `model` in it.

    Raises:
        ValueError: If `path` is a file, or an export of `gc-net export`.
    """
    path = os.path.expanduser(os.fspath(path))
    if os.path.isfile(path) or _is_export(path):
        kind = "a file" if os.path.isfile(path) else "an export"
        raise ValueError(
            f"{path!r} is {kind}. Expected the folder of a model, with its {MODEL_FILE}, or of the "
            "run that trained it. A .tflite file or a SavedModel is made from such a folder by "
            "gc-net export, and cannot be read back."
        )
    below = os.path.join(path, "model")
    return below if os.path.exists(os.path.join(below, MODEL_FILE)) else path


def _is_export(path):
    """Return whether a folder holds a SavedModel, its versions or TFLite files, and no model."""
    if os.path.exists(os.path.join(path, MODEL_FILE)):
        return False
    return bool(glob.glob(os.path.join(glob.escape(path), "*.tflite"))) or any(
        os.path.exists(os.path.join(path, version, "saved_model.pb")) for version in ("", "1")
    )


def save_model(
    folder: str | os.PathLike,
    model: "Network",
    class_names: Sequence[str],
    record: TrainingRecord | None = None,
    dtype: str = "float32",
) -> None:
    """Write a network into `folder`.

    Args:
        class_names: Names in label order.
        record: How it was trained.
        dtype: `"float32"`, or `"float16"` to halve the size.
    """
    _write(folder, {"model": _serialized(model)}, model, class_names, record, dtype)


def load_model(folder: str | os.PathLike, precision: str | None = "float32") -> SavedModel:
    """Return the network in `folder`.

    Args:
        precision: Name of the dtype policy to compute in; that of its training if None. The weights
            are the same; half precision is useful only in training.
    """
    from gc_net.backbones.network import Network

    description, path = _read(folder)
    if "model" not in description:
        raise ValueError(f"{path!r} describes a localizer, not a network. Use `gc_net.load`.")
    network = _built(description["model"], precision, path, description["record"])
    if not isinstance(network, Network):
        raise ValueError(
            f"{path!r} describes a {type(network).__name__}, not a network of this package."
        )
    weights = os.path.join(os.path.dirname(path), WEIGHTS_FILE)
    assign_weights(network, stored_weights_npz(weights), source=weights)
    return SavedModel(network, description["class_names"], description["record"])


def trained_method(folder: str | os.PathLike) -> str | None:
    """Return the name of the method whose classifier is in `folder`; None for other models."""
    return _method(_read(folder)[0])


def _method(description):
    """Return the method of a network that `--method` has trained, by its record, or None."""
    from gc_net.methods import GC_NET

    settings = description["record"].settings.get("classifier")
    is_classifier = description.get("model", {}).get("class_name") == "Classifier"
    if not is_classifier or not isinstance(settings, Mapping):
        return None
    name = settings.get("method", GC_NET)
    return name if isinstance(name, str) and name != GC_NET else None


def save_localizer(
    folder: str | os.PathLike, localizer: "Localizer", dtype: str = "float32"
) -> None:
    """Write a `Localizer` into `folder`; see `Localizer.save`."""
    description = {
        "localizer": {
            **{name: _serialized(part) for name, part in localizer.parts.items()},
            "resize_size": localizer.resize_size,
            "second_look": localizer.second_look,
            "mirror": localizer.mirror,
        }
    }
    weights = {
        f"{name}/{key}": variable
        for name, part in localizer.parts.items()
        for key, variable in named_variables(part).items()
    }
    _write(folder, description, weights, localizer.class_names, localizer.record, dtype)


def load_localizer(folder: str | os.PathLike, precision: str | None = "float32") -> "Localizer":
    """Return the `Localizer` in `folder`; see `Localizer.load`."""
    from gc_net.localizer import PARTS, Localizer

    description, path = _read(folder)
    if "localizer" not in description:
        kind = description["model"].get("class_name")
        method = _method(description)
        if method is not None:
            raise ValueError(
                f"The model in {os.path.dirname(path)!r} is the classifier of the method "
                f"{method!r} and has no detector. `gc-net evaluate` measures the method's own "
                "boxes; no other command takes it."
            )
        raise ValueError(
            f"The model in {os.path.dirname(path)!r} is a {kind}, which localizes nothing. Give "
            "the folder of a model with a trained detector."
        )
    arguments = dict(description["localizer"])
    for name in PARTS:
        if arguments.get(name) is not None:
            arguments[name] = _built(arguments[name], precision, path, description["record"])
    try:
        _check_kinds(arguments)
        check_resize_size(arguments.get("resize_size"))
        localizer = Localizer(
            **arguments, class_names=description["class_names"], record=description["record"]
        )
    except Exception as error:  # whatever a constructor says of arguments that make no sense
        raise ValueError(f"{path!r} describes a model that cannot be built: {error}") from error
    weights = os.path.join(os.path.dirname(path), WEIGHTS_FILE)
    _assign(localizer.parts, stored_weights_npz(weights), weights)
    return localizer


def _check_kinds(parts):
    """Raise if a file names classes that are not parts of a localizer."""
    from gc_net.classifier import Classifier
    from gc_net.detector import Detector

    kinds = {"detector": Detector, "classifier": Classifier, "second_classifier": Classifier}
    for name, kind in kinds.items():
        part = parts.get(name)
        if not isinstance(part, kind) and (part is not None or name != "second_classifier"):
            raise ValueError(f"the {name} is a {type(part).__name__}, not a {kind.__name__}")


def check_resize_size(size: Any) -> None:
    """Raise if a file names an impossible side of squashed images."""
    # An image of this size is made for every prediction.
    whole = isinstance(size, int) and not isinstance(size, bool)
    if size is not None and not (whole and 0 < size <= _LARGEST_RESIZE):
        raise ValueError(
            f"`resize_size` must be a whole number from 1 to {_LARGEST_RESIZE:,}. "
            f"Received: resize_size={size!r:.100}"
        )


def _assign(parts, arrays, source):
    """Give each network its arrays; ignore those of a second classifier if there is none."""
    # Older folders have another name for second classifiers.
    arrays = {key.replace("namer/", "second_classifier/", 1): arrays[key] for key in arrays}
    known = (*parts, "second_classifier")
    unknown = [key for key in arrays if key.split("/")[0] not in known]
    if unknown:
        raise ValueError(
            f"The weights in {source} do not fit the model: found {unknown[0]} and "
            f"{len(unknown) - 1} more that belong to none of {', '.join(parts)}."
        )
    # When a model gets a second classifier, its files are replaced, weights first. If that is
    # stopped between the two files, the folder is still the model that its description names.
    for name, part in parts.items():
        assign_weights(part, arrays, prefix=name, source=source)


def _serialized(model):
    import keras

    config = keras.saving.serialize_keras_object(model)
    # Compiled state belongs to training; a folder holds what inference needs.
    config.pop("compile_config", None)
    return config


def _write(folder, description, weights, class_names, record, dtype):
    folder = os.path.expanduser(os.fspath(folder))
    os.makedirs(folder, exist_ok=True)
    save_weights_npz(os.path.join(folder, WEIGHTS_FILE), weights, dtype=dtype)
    content = {
        "gc_net": __version__,
        **description,
        "class_names": list(class_names),
        "record": (record or TrainingRecord()).to_dict(),
    }
    # Last, so that a folder with this file is complete.
    with replaced_file(os.path.join(folder, MODEL_FILE), sync=True) as file:
        json.dump(content, file, indent=1, ensure_ascii=False)


def _read(folder) -> tuple[dict[str, Any], str]:
    """Return the content of `model.json`, brought up to date, and its path."""
    folder = os.path.expanduser(os.fspath(folder))
    path = os.path.join(folder, MODEL_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except FileNotFoundError:
        raise ValueError(
            f"No model in {folder!r}: it has no {MODEL_FILE}. Give the folder that training "
            "wrote its model to, e.g. runs/mine/model."
        ) from None
    # E.g. no UTF-8, numbers of thousands of digits, and endless brackets.
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path!r} is damaged: {error}") from None
    try:
        content = _up_to_date(content)
        content["record"] = TrainingRecord.from_dict(content["record"])
        content["class_names"] = _checked_class_names(content["class_names"])
        _check_is_dict(content["localizer" if "localizer" in content else "model"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path!r} does not describe a model of this package ({error!r}). Expected a file of "
            "`Localizer.save`."
        ) from None
    except ValueError as error:
        raise ValueError(f"{path!r} describes a model that cannot be built: {error}") from error
    return content, path


def _checked_class_names(names):
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"`class_names` must be a list of texts. Received: {names!r:.200}")
    return tuple(names)


def _check_is_dict(value):
    if not isinstance(value, Mapping):
        raise TypeError(f"expected a dict, found {type(value).__name__}")


def _up_to_date(content):
    """Return the content of a file in the form of this version."""
    content = dict(content)
    if "info" not in content:
        return content
    # Files from before localizers have the same fields in `model` and `info`.
    info = content.pop("info")
    record = {
        "settings": info.get("config", {}),
        "environment": info.get("environment", {}),
    }
    model = content["model"]
    if model["class_name"] == "GCNet":
        del content["model"]
        config = dict(model["config"])
        greek = {"area": "alpha", "object": "beta", "background": "gamma"}
        record["loss_weights"] = {term: config[name] for term, name in greek.items()}
        # Detectors did not know their shape either.
        config["detector"]["config"].setdefault("shape", config["generator"]["config"]["shape"])
        content["localizer"] = {
            **{name: config[name] for name in ("detector", "generator", "classifier")},
            "second_classifier": config.get("namer"),
            "resize_size": info.get("resize_size"),
            "second_look": config.get("look", 0.0),
        }
    return {**content, "record": record}


def _built(config, precision, path, record):
    """Return the network that a configuration describes."""
    import keras

    # Importing registers the classes that a model file may name.
    import gc_net.classifier
    import gc_net.detector
    import gc_net.generators.learned
    import gc_net.generators.model  # noqa: F401

    try:
        _leave_weights_out(config)
        if precision is not None:
            _set_precision(config, precision)
        shape = record.settings.get("detector", {}).get("shape")
        if config.get("class_name") == "Detector" and shape is not None:
            # A detector from before it knew its shape.
            config["config"].setdefault("shape", shape)
        # Safe mode builds what is registered and nothing else: no code comes with a model.
        return keras.saving.deserialize_keras_object(config, safe_mode=True)
    except Exception as error:  # whatever a constructor says of arguments that make no sense
        # Keras puts whole configurations before it, once for each object around the one at fault.
        reason = str(error).rpartition("Exception encountered: ")[2]
        raise ValueError(f"{path!r} describes a model that cannot be built: {reason}") from error


def _set_precision(config, precision):
    """Change the precision of all networks in a model's configuration, a nested dict."""
    if not isinstance(config, dict):
        return
    if "precision" in config:
        config["precision"] = precision
    for value in config.values():
        _set_precision(value, precision)


def _leave_weights_out(config):
    """Make sure that no network fetches weights, or reads a file that a configuration names.

    Weights come from the file beside it. A missing argument would mean those of ImageNet.
    """
    if isinstance(config, list):
        for value in config:
            _leave_weights_out(value)
    if not isinstance(config, dict):
        return
    inner = config.get("config")
    # Keras uses the registered name, such as gc_net>Detector, and not the other one.
    registered = str(config.get("registered_name")).rpartition(">")[2]
    named = registered in _WITH_WEIGHTS or config.get("class_name") in _WITH_WEIGHTS
    if isinstance(inner, dict) and (named or "weights" in inner):
        inner["weights"] = None
    for value in config.values():
        _leave_weights_out(value)
