"""Weights as one compressed `.npz` file: small, readable without Keras, no pickle.

An array is stored under the names of the layers that lead to it, seen from the saved model:
`"trunk/stem_conv/kernel"`. The name of the model itself is no part of it, so that weights move
between models that were built alone and models that were built inside others.
"""

import os
import zipfile
import zlib

import numpy as np

from gc_net.atomic_files import replaced_file

# What reading a damaged zip file has been seen to raise; the last two are about its headers.
_DAMAGED = (ValueError, OSError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error)
_DAMAGED += (NotImplementedError, RuntimeError)
HALF_ROUNDING = 2.0**-11  # largest relative error of float16 between 6.1e-5 and 65,504


def named_variables(model):
    """Return the variables of a model or layer, keyed by layer names relative to it.

    Seeds of dropout and the like are no weights and are left out.
    """
    variables = {}
    inner = set()
    for layer in getattr(model, "layers", ()):
        for key, variable in named_variables(layer).items():
            _insert(variables, f"{layer.name}/{key}", variable)
            inner.add(id(variable))
    for variable in model.weights:
        if id(variable) not in inner:
            # A layer that holds others without being a model: the path continues after its name.
            key = f"/{variable.path}".rpartition(f"/{model.name}/")[2].lstrip("/")
            _insert(variables, key, variable)
    return variables


def save_weights_npz(path, model_or_dict, dtype="float16"):
    """Write weights to `path` in one step: readers see the old file or the new one.

    An array that `dtype` would spoil stays float32: one with a value beyond its range, or with
    values so small that more than the usual rounding is lost (some moving variances).

    Args:
        path: File to write; by convention ends in `.npz`.
        model_or_dict: A model or layer, or a mapping of name to array.
        dtype: `"float16"` or `"float32"`, what floating-point arrays are stored as.
    """
    if dtype not in ("float16", "float32"):
        raise ValueError(f"`dtype` must be 'float16' or 'float32'. Received: dtype={dtype!r}")
    if not isinstance(model_or_dict, dict):
        model_or_dict = named_variables(model_or_dict)
    arrays = {key: _compact(_as_numpy(value), dtype) for key, value in model_or_dict.items()}
    # What is halved is to be sent around: a better compression, which takes longer to write.
    method = zipfile.ZIP_BZIP2 if dtype == "float16" else zipfile.ZIP_DEFLATED
    with (
        replaced_file(path, "wb", sync=True) as file,
        zipfile.ZipFile(file, "w", method) as archive,
    ):
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)


def read_weights_npz(path):
    """Return the mapping of name to array in `path`; half-precision arrays come as float32."""
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"There is no weights file {path!r}.")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except _DAMAGED as error:
        raise ValueError(
            f"{path!r} is not a readable .npz file of plain arrays ({error}). "
            "Expected one written by `gc_net.weights.save_weights_npz` or `gc-net convert_weights`."
        ) from error
    return {
        key: value.astype(np.float32) if value.dtype == np.float16 else value
        for key, value in arrays.items()
    }


def load_weights_npz(path, model, prefix="", skip_mismatch=False):
    """Load a file of `save_weights_npz` into a model or layer, all of it or nothing.

    Args:
        path: The `.npz` file.
        model: Model or layer that takes the weights.
        prefix: Load what the file has under this name, e.g. `"trunk"`, and leave the rest of
            the file alone. By default the file must hold the model's weights and no others.
        skip_mismatch: Leave variables as they are whose shape differs from the file's.

    Returns:
        The names of the variables left as they were, in the file's spelling.

    Example:
        save_weights_npz("classifier.npz", classifier)
        load_weights_npz("classifier.npz", detector.get_layer("trunk"), prefix="trunk")
    """
    return assign_weights(model, read_weights_npz(path), prefix, skip_mismatch, source=str(path))


def assign_weights(model, arrays, prefix="", skip_mismatch=False, source="the given arrays"):
    """Do as `load_weights_npz` with a mapping of name to array; `source` is for messages."""
    prefix = f"{prefix}/" if prefix else ""
    variables = {prefix + key: variable for key, variable in named_variables(model).items()}
    arrays = {key: value for key, value in arrays.items() if key.startswith(prefix)}
    missing = [key for key in variables if key not in arrays]
    surplus = [key for key in arrays if key not in variables]
    if missing or surplus:
        raise ValueError(
            f"The weights in {source} do not fit the model {model.name!r}. "
            f"Expected but not found: {_listing(missing)}. Found but not expected: "
            f"{_listing(surplus)}. Check that the file was made for this network."
        )
    skipped = [key for key, value in variables.items() if arrays[key].shape != tuple(value.shape)]
    if skipped and not skip_mismatch:
        details = [
            f"{key} is {arrays[key].shape}, expected {tuple(variables[key].shape)}"
            for key in skipped
        ]
        raise ValueError(
            f"The weights in {source} have other shapes than the model {model.name!r}: "
            f"{_listing(details)}. Check the number of outputs and the image size."
        )
    for key, variable in variables.items():
        if key not in skipped:
            variable.assign(arrays[key])
    return skipped


def _insert(variables, key, variable):
    if key in variables:
        raise ValueError(
            f"Two variables have the name {key!r}. Layers of one model need names of their own."
        )
    variables[key] = variable


def _as_numpy(value):
    # bfloat16 is no NumPy type that `np.savez` can store.
    floating = "float" in str(value.dtype)
    return np.asarray(value).astype(np.float32) if floating else np.asarray(value)


def _compact(array, dtype):
    if dtype == "float32" or array.dtype != np.float32 or not array.size:
        return array
    with np.errstate(over="ignore", under="ignore"):
        half = array.astype(np.float16)
    # In a vector (bias, variance) every entry is the scale of its own channel; the entries of a
    # kernel are summed up, and their errors count relative to the typical entry.
    size = np.abs(array)
    if array.ndim > 1:
        size = np.maximum(size, np.sqrt(np.mean(np.square(array, dtype=np.float64))))
    error = np.abs(half.astype(np.float32) - array)
    return half if np.all(error <= HALF_ROUNDING * size) else array


def _listing(names, limit=5):
    if not names:
        return "nothing"
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
