"""From published PyTorch weights to the `.npz` files of this package."""

import os

from gc_net import backbones
from gc_net.weights import assign_weights, read_weights_npz, save_weights_npz


def convert_weights(
    backbone: str, source: str | os.PathLike, output: str | os.PathLike, dtype: str = "float16"
) -> None:
    """Convert a PyTorch file, and make sure that the network takes the result.

    Args:
        backbone: A backbone or its name.
        source: A `.pth` file, which needs PyTorch, or an `.npz` dump of its state dict.
        output: The `.npz` file to write.
        dtype: `"float16"` or `"float32"`.
    """
    backbone = backbones.get(backbone)
    arrays = backbone.torch_weights(_read_state(source))
    trunk = backbone.trunk(backbone.image_size)
    assign_weights(trunk, arrays, prefix="trunk", source=source)
    if "head/outputs/bias" in arrays:
        num_outputs = len(arrays["head/outputs/bias"])
        head = backbone.head(num_outputs, trunk.output_shape[1:])
        assign_weights(head, arrays, prefix="head", source=source)
    save_weights_npz(output, arrays, dtype=dtype)


def _read_state(source):
    if os.path.splitext(source)[1] == ".npz":
        return read_weights_npz(source)
    if not os.path.isfile(source):
        raise FileNotFoundError(f"There is no weights file {source!r}.")
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"Reading {source!r} needs PyTorch: `pip install torch`, here or on another machine "
            "where the arrays of the state dict are saved with `numpy.savez`; then pass that .npz."
        ) from error
    state = torch.load(source, map_location="cpu", weights_only=True)
    state = state.get("state_dict", state)  # a checkpoint of a training holds it among others
    return {key: value.numpy() for key, value in state.items()}
