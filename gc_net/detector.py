"""The detector: the one network that is trained to localize."""

import keras

from gc_net.backbones.network import Network


@keras.saving.register_keras_serializable(package="gc_net")
class Detector(Network):
    """Image to raw coefficients; a shape's `decode` maps them into range.

    Args:
        backbone: Name of a backbone.
        num_coefficients: Number of a shape's coefficients, 4 or 5.
        image_size: Side of the square images; the backbone's own where it is None.
        head: `"native"` as in the paper, or `"position"`, which keeps the feature map's positions.
        weights: `"imagenet"`, a file path, or `None`.

    Example:
        detector = Detector("efficientnet_lite0", image_size=128)
        logits = detector(images)  # [B, 5]
    """

    def __init__(
        self,
        backbone="efficientnet_lite0",
        num_coefficients=5,
        image_size=None,
        head="native",
        weights="imagenet",
        name="detector",
        **kwargs,
    ):
        super().__init__(backbone, num_coefficients, image_size, head, weights, name, **kwargs)
        self.num_coefficients = num_coefficients

    def get_config(self):
        return {**super().get_config(), "num_coefficients": self.num_coefficients}
