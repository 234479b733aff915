"""What every backbone offers, and how its weights are found."""

import abc
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gc_net import weights as weight_files

if TYPE_CHECKING:
    import keras


class Backbone(abc.ABC):
    """A recipe for a convolutional network; holds no variables itself.

    The network comes in three parts, so that an image can be masked between the first two, where
    a zero pixel is the mean colour, and so that a new head can be put on:

        images 0–255 RGB → normalizer → trunk → head → outputs

    Subclasses set the attributes and define the abstract methods. Layers have fixed names, which
    are the keys of weight files: `"trunk/stem_conv/kernel"`, `"head/outputs/bias"`.

    Attributes:
        name: Name in the registry.
        image_size: Side of the square images the ImageNet weights were trained on.
        descriptor_layer: Layer of the trunk whose output serves best as a map of descriptors,
            for methods that compare positions (`trunk.get_layer(descriptor_layer).output`).
        feature_layers: The last layers of the trunk at its three coarsest resolutions, the finest
            first.
    """

    name: str
    image_size: int
    descriptor_layer: str
    feature_layers: tuple[str, str, str]

    @abc.abstractmethod
    def normalizer(self) -> "keras.layers.Layer":
        """Return a layer from RGB images in 0–255 to the values the trunk was trained on.

        It computes in float32 under every policy, so that no grey level is lost.
        """

    @abc.abstractmethod
    def trunk(self, image_size: int, name: str = "trunk") -> "keras.Model":
        """Return a functional model: normalized images [B, S, S, 3] to features [B, h, w, C]."""

    @abc.abstractmethod
    def head(
        self, num_outputs: int, feature_shape: tuple[int, ...], name: str = "head"
    ) -> "keras.Model":
        """Return the network's own head: a model, feature map [B, h, w, C] to raw outputs [B, N].

        Its last layer is called `"outputs"` and computes in float32.
        """

    @abc.abstractmethod
    def imagenet_weights(self, with_head: bool) -> str:
        """Return the path of a file with ImageNet weights, downloaded where need be.

        Args:
            with_head: Whether the 1000-class head is wanted too; it may be most of a download.
        """

    def keras_weights(self, path: str | os.PathLike) -> dict[str, np.ndarray]:
        """Return the arrays of a Keras `.h5` file under this backbone's names."""
        raise ValueError(
            f"The backbone {self.name!r} has no counterpart in keras.applications and cannot "
            f"read {path!r}. Expected a .npz file; `gc-net convert_weights` makes one."
        )

    def torch_weights(self, state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return a PyTorch `state_dict`, given as NumPy arrays, under this backbone's names."""
        raise ValueError(
            f"No conversion from PyTorch is known for the backbone {self.name!r}. "
            "It reads files of keras.applications as they are."
        )

    def load_weights(
        self,
        trunk: "keras.Model",
        head: "keras.Model | None" = None,
        weights: str | os.PathLike | None = "imagenet",
    ) -> list[str]:
        """Load `weights` into `trunk`, and into `head` where it is given and its shapes match.

        Args:
            weights: `"imagenet"`, `None` to leave the initial values, or a file: a `.npz` of
                this package (`gc_net.weights`, `gc-net convert_weights`) or, for networks of
                keras.applications, a Keras `.h5` or `.weights.h5`.
            head: A model from `self.head`. Layers whose shapes differ from the file's (the
                outputs, for another number of classes) keep their initial values, as does the
                whole head where the file has none.

        Returns:
            The names of the head's variables that keep their initial values.
        """
        if weights is None:
            return [] if head is None else list(weight_files.named_variables(head))
        if weights == "imagenet":
            weights = self.imagenet_weights(with_head=head is not None)
        path = os.fspath(weights)
        arrays = self._read(path)
        weight_files.assign_weights(trunk, arrays, prefix="trunk", source=path)
        if head is None:
            return []
        if not any(key.startswith("head/") for key in arrays):
            return list(weight_files.named_variables(head))
        skipped = weight_files.assign_weights(
            head, arrays, prefix="head", skip_mismatch=True, source=path
        )
        return [name.removeprefix("head/") for name in skipped]

    def _read(self, path):
        readers = {".npz": weight_files.read_weights_npz, ".h5": self.keras_weights}
        suffix = os.path.splitext(path)[1]
        if suffix not in readers:
            raise ValueError(
                "`weights` must be 'imagenet', None, or a .npz, .h5 or .weights.h5 file. "
                f"Received: weights={path!r}. `gc-net convert_weights` converts others."
            )
        if not os.path.isfile(path):
            raise FileNotFoundError(f"There is no weights file {path!r}.")
        return readers[suffix](path)
