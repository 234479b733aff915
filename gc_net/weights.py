"""Weights as one compressed `.npz` file: small, readable without Keras, without pickle.

The name of an array has the names of the layers that lead to it from the saved model:
`"trunk/stem_conv/kernel"`. The name of the model itself is not a part of it. So weights can move
between models that were built alone and models that were built inside others.
"""

import bz2
import contextlib
import copy
import dataclasses
import io
import math
import os
import zipfile
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gc_net.atomic_files import replaced_file

if TYPE_CHECKING:
    import keras

# Errors of reading damaged zip files; the last two come from their headers.
_DAMAGED = (ValueError, OSError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error)
_DAMAGED += (NotImplementedError, RuntimeError)
_HEADER_BYTES = 1 << 14  # of an array, unpacked; some hundred are usual
_PACKED_BLOCK = 1 << 20  # enough for bzip2 to give the first bytes of a file
HALF_ROUNDING = 2.0**-11  # largest relative error of float16 between 6.1e-5 and 65,504


def named_variables(model: "keras.Layer") -> "dict[str, keras.Variable]":
    """Return the variables of a model or layer, keyed by layer names relative to it.

    Seeds, such as those of dropout, are no weights and are left out.
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


def save_weights_npz(
    path: str | os.PathLike,
    model_or_dict: "keras.Layer | Mapping[str, np.ndarray]",
    dtype: str = "float16",
) -> None:
    """Write weights to `path` in one step: readers see the old file or the new one.

    An array stays float32 if `dtype` would spoil it: if a value is beyond its range, or if values
    are so small that they lose more than the usual rounding (some moving variances).

    Args:
        path: File to write; by convention ends in `.npz`.
        model_or_dict: A model or layer, or a mapping of name to array.
        dtype: `"float16"` or `"float32"`, the stored type of floating-point arrays.
    """
    if dtype not in ("float16", "float32"):
        raise ValueError(f"`dtype` must be 'float16' or 'float32'. Received: dtype={dtype!r}")
    if not isinstance(model_or_dict, dict):
        model_or_dict = named_variables(model_or_dict)
    arrays = {key: _compact(_as_numpy(value), dtype) for key, value in model_or_dict.items()}
    # Half-precision files are sent around, so they get a better compression, which is slower.
    method = zipfile.ZIP_BZIP2 if dtype == "float16" else zipfile.ZIP_DEFLATED
    with (
        replaced_file(path, "wb", sync=True) as file,
        zipfile.ZipFile(file, "w", method) as archive,
    ):
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)


@dataclasses.dataclass(frozen=True)
class StoredArray:
    """An array of an `.npz` file, of which only the header was read.

    A file of some kilobytes may claim, and unpack to, gigabytes. So its content is unpacked only if
    its shape is the expected one, and no further than that shape needs.
    """

    archive: zipfile.ZipFile
    entry: zipfile.ZipInfo
    shape: tuple[int, ...]
    stored_dtype: np.dtype
    fortran_order: bool
    start: int

    def read(self) -> np.ndarray:
        """Return the array; half precision comes as float32."""
        length = math.prod(self.shape) * self.stored_dtype.itemsize
        with _readable(self.archive.filename):
            data = _unpacked(self.archive, self.entry, self.start + length)
            if len(data) != self.start + length or zlib.crc32(data) != self.entry.CRC:
                raise ValueError(f"{self.entry.filename} has other content than its header says")
        order = "F" if self.fortran_order else "C"
        array = np.frombuffer(data, self.stored_dtype, offset=self.start)
        array = array.reshape(self.shape, order=order)
        return array.astype(np.float32 if self.stored_dtype == np.float16 else self.stored_dtype)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.read(), dtype)


def stored_weights_npz(path: str | os.PathLike) -> dict[str, StoredArray]:
    """Return the mapping of name to `StoredArray` in `path`; no array is unpacked."""
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"There is no weights file {path!r}.")
    with _readable(path):
        # Closed with the last of its arrays: each opening would read the whole directory.
        archive = zipfile.ZipFile(path)
        return {
            entry.filename.removesuffix(".npy"): _stored(archive, entry)
            for entry in archive.infolist()
        }


def read_weights_npz(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Return the mapping of name to array in `path`; half-precision arrays come as float32."""
    return {key: stored.read() for key, stored in stored_weights_npz(path).items()}


@contextlib.contextmanager
def _readable(path):
    try:
        yield
    except _DAMAGED as error:
        raise ValueError(
            f"{path!r} is not a readable .npz file of plain arrays ({error}). "
            "Expected one written by `gc_net.weights.save_weights_npz` or `gc-net convert_weights`."
        ) from error


def _stored(archive, entry):
    head = io.BytesIO(_unpacked(archive, entry, _HEADER_BYTES, _PACKED_BLOCK))
    version = np.lib.format.read_magic(head)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"{entry.filename} has version {version} of the format")
    shape, fortran_order, dtype = readers[version](head)
    if dtype.kind not in "fiub":
        raise ValueError(f"{entry.filename} holds {dtype}, not numbers")
    if any(not isinstance(side, int) or side < 0 for side in shape):
        raise ValueError(f"{entry.filename} has the shape {shape}")
    return StoredArray(archive, entry, shape, dtype, fortran_order, head.tell())


def _unpacked(archive, entry, limit, packed_limit=-1):
    """Return the content of an entry, `limit` bytes and one more at most.

    Not with `ZipFile.read`, which unpacks everything before it uses the length in the directory.
    """
    if entry.flag_bits & 1:
        raise ValueError(f"{entry.filename} is encrypted")
    packed = copy.copy(entry)
    packed.compress_type, packed.CRC = zipfile.ZIP_STORED, None
    packed.file_size = entry.compress_size
    with archive.open(packed) as file:
        data = file.read(packed_limit)
    if entry.compress_type == zipfile.ZIP_STORED:
        return data[: limit + 1]
    if entry.compress_type == zipfile.ZIP_DEFLATED:
        return zlib.decompressobj(-15).decompress(data, limit + 1)
    if entry.compress_type == zipfile.ZIP_BZIP2:
        return bz2.BZ2Decompressor().decompress(data, limit + 1)
    raise NotImplementedError(f"{entry.filename} is packed in an unknown way")


def load_weights_npz(
    path: str | os.PathLike, model: "keras.Layer", prefix: str = "", skip_mismatch: bool = False
) -> list[str]:
    """Load a file of `save_weights_npz` into a model or layer, all of it or nothing.

    Args:
        path: The `.npz` file.
        model: Model or layer that takes the weights.
        prefix: Load only the file's weights under this name, e.g. `"trunk"`. By default the file
            must hold exactly the model's weights.
        skip_mismatch: Do not change variables whose shape differs from the file's.

    Returns:
        The names of the unchanged variables, in the file's spelling.

    Example:
        save_weights_npz("classifier.npz", classifier)
        load_weights_npz("classifier.npz", detector.get_layer("trunk"), prefix="trunk")
    """
    return assign_weights(model, stored_weights_npz(path), prefix, skip_mismatch, source=str(path))


def assign_weights(
    model: "keras.Layer",
    arrays: Mapping[str, Any],
    prefix: str = "",
    skip_mismatch: bool = False,
    source: str = "the given arrays",
) -> list[str]:
    """Do as `load_weights_npz` with a mapping of name to array, or to `StoredArray`.

    `source` is for messages.
    """
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
    wanted = {key: np.asarray(arrays[key]) for key in variables if key not in skipped}
    ruined = [
        key
        for key, value in wanted.items()
        if value.dtype.kind == "f" and not np.isfinite(value).all()
    ]
    if ruined:
        raise ValueError(
            f"The weights in {source} are not finite: {_listing(ruined)}. They were ruined in "
            "training, or by damage to the file; take an earlier checkpoint."
        )
    for key, value in wanted.items():
        variables[key].assign(value)
    return skipped


def _insert(variables, key, variable):
    if key in variables:
        raise ValueError(
            f"Two variables have the name {key!r}. Layers of one model need names of their own."
        )
    variables[key] = variable


def _as_numpy(value):
    # `np.savez` cannot store bfloat16.
    floating = "float" in str(value.dtype)
    return np.asarray(value).astype(np.float32) if floating else np.asarray(value)


def _compact(array, dtype):
    if dtype == "float32" or array.dtype != np.float32 or not array.size:
        return array
    with np.errstate(over="ignore", under="ignore"):
        half = array.astype(np.float16)
    # In a vector (bias, variance), every entry has the scale of its own channel. The entries of a
    # kernel are added up, so their errors count relative to the typical entry.
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
