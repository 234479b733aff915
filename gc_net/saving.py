"""A trained model as a folder: `model.json`, how it is built, and `weights.npz`, its weights.

Readable by eye, free of pickles and code, and half the size in half precision. Keras' own
`.keras` files work too (`model.save`); they keep the optimizer's state, for going on training.
"""

import dataclasses
import json
import os

from gc_net.atomic_files import replaced_file
from gc_net.version import __version__
from gc_net.weights import assign_weights, save_weights_npz, stored_weights_npz

MODEL_FILE = "model.json"
WEIGHTS_FILE = "weights.npz"
_WITH_WEIGHTS = ("Classifier", "Detector", "LearnedGenerator")


@dataclasses.dataclass(frozen=True)
class SavedModel:
    """A loaded model and what belongs to it.

    Attributes:
        model: A `GCNet` (or a `Classifier`, for a stage that ends with one).
        class_names: Names in label order.
        info: What else was written with it: data, settings, metrics.
    """

    model: object
    class_names: tuple[str, ...]
    info: dict


def save_model(folder, model, class_names, info=None, dtype="float32"):
    """Write `model` into `folder`.

    Args:
        class_names: Names in label order.
        info: JSON-serialisable dict kept with the model.
        dtype: `"float32"`, or `"float16"` to halve the size.
    """
    import keras

    folder = os.path.expanduser(folder)
    os.makedirs(folder, exist_ok=True)
    save_weights_npz(os.path.join(folder, WEIGHTS_FILE), model, dtype=dtype)
    record = {
        "gc_net": __version__,
        "model": keras.saving.serialize_keras_object(model),
        "class_names": list(class_names),
        "info": info or {},
    }
    # Compiled state belongs to training; a folder holds what inference needs.
    record["model"].pop("compile_config", None)
    # Last, so that a folder with this file is complete.
    path = os.path.join(folder, MODEL_FILE)
    with replaced_file(path, sync=True) as file:
        json.dump(record, file, indent=1, ensure_ascii=False)


def load_model(folder, precision="float32"):
    """Return the `SavedModel` in `folder`.

    Args:
        precision: Name of the dtype policy to compute in; that of its training if None. The weights
            are the same, and half precision pays in training only.
    """
    import keras

    # Importing registers the classes that a model file may name.
    import gc_net.backbones.network
    import gc_net.classifier
    import gc_net.detector
    import gc_net.generators.learned
    import gc_net.generators.model
    import gc_net.model

    folder = os.path.expanduser(folder)
    path = os.path.join(folder, MODEL_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
    except FileNotFoundError:
        raise ValueError(
            f"No model in {folder!r}: it has no {MODEL_FILE}. Give the folder that training "
            "wrote its model to, e.g. runs/mine/model."
        ) from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path!r} is damaged: {error}") from None
    if not isinstance(record, dict) or not {"model", "class_names", "info"} <= set(record):
        raise ValueError(
            f"{path!r} does not describe a model of this package. Expected a file of "
            "`gc_net.saving.save_model`, with model, class_names and info."
        )
    _leave_weights_out(record["model"])
    if precision is not None:
        _set_precision(record["model"], precision)
    try:
        # Safe mode builds what is registered and nothing else: no code comes with a model.
        model = keras.saving.deserialize_keras_object(record["model"], safe_mode=True)
    except Exception as error:  # whatever a constructor says of arguments that make no sense
        raise ValueError(f"{path!r} describes a model that cannot be built: {error}") from error
    if not isinstance(model, gc_net.model.GCNet | gc_net.backbones.network.Network):
        raise ValueError(
            f"{path!r} describes a {type(model).__name__}, not a model of this package."
        )
    path = os.path.join(folder, WEIGHTS_FILE)
    arrays = stored_weights_npz(path)
    if getattr(model, "namer", None) is None:
        # A model that gets a namer is written over, weights first. One that was stopped between
        # the two files is still the model that its record describes.
        arrays = {key: value for key, value in arrays.items() if not key.startswith("namer/")}
    assign_weights(model, arrays, source=path)
    return SavedModel(model, tuple(record["class_names"]), record["info"])


def _set_precision(config, precision):
    """Change the precision of all networks in a model's configuration, a nested dict."""
    if not isinstance(config, dict):
        return
    if "precision" in config:
        config["precision"] = precision
    for value in config.values():
        _set_precision(value, precision)


def _leave_weights_out(config):
    """See to it that no network fetches weights, or reads a file that a configuration names.

    They come from the file beside it. Left out, the argument would mean those of ImageNet.
    """
    if isinstance(config, list):
        for value in config:
            _leave_weights_out(value)
    if not isinstance(config, dict):
        return
    inner = config.get("config")
    if isinstance(inner, dict) and (
        "weights" in inner or config.get("class_name") in _WITH_WEIGHTS
    ):
        inner["weights"] = None
    for value in config.values():
        _leave_weights_out(value)
