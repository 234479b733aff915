"""PyTorch's `state_dict` in Keras' names and axis orders."""

from collections.abc import Mapping, Sequence

import numpy as np

NORMALIZATION = {
    "weight": "gamma",
    "bias": "beta",
    "running_mean": "moving_mean",
    "running_var": "moving_variance",
}


def translate(
    state: Mapping[str, np.ndarray], names: Mapping[str, str], ignore: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Return the arrays of a state dict, by the names of this package's weight files.

    Args:
        state: Mapping of names such as `"conv1.bn.running_var"` to NumPy arrays.
        names: Mapping of PyTorch's module names to ours: `{"conv1.bn": "trunk/conv1_bn"}`.
            Depthwise convolutions have names with `depthwise` in them.
        ignore: Beginnings of names that are left out, for parts this package does not have.
    """
    arrays = {}
    unknown = []
    for key, value in state.items():
        module, _, parameter = key.rpartition(".")
        if parameter == "num_batches_tracked" or key.startswith(tuple(ignore)):
            continue
        if module not in names:
            unknown.append(key)
            continue
        name = names[module]
        if f"{module}.running_mean" in state:
            arrays[f"{name}/{NORMALIZATION[parameter]}"] = value
        elif parameter == "bias":
            arrays[f"{name}/bias"] = value
        else:
            arrays[f"{name}/kernel"] = _kernel(value, depthwise="depthwise" in name)
    if unknown:
        raise ValueError(
            "The file is not of the network it is converted for: "
            f"{len(unknown)} unknown parameters, among them {unknown[:5]}."
        )
    return arrays


def _kernel(value, depthwise):
    if value.ndim == 2:
        return np.transpose(value)  # [out, in] → [in, out]
    if depthwise:
        return np.transpose(value, (2, 3, 0, 1))  # [C, 1, h, w] → [h, w, C, 1]
    return np.transpose(value, (2, 3, 1, 0))  # [out, in, h, w] → [h, w, in, out]
