"""The detector: the one network that is trained to localize."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from gc_net import heads, parametrizations, shapes
from gc_net.backbones.base import Backbone
from gc_net.backbones.network import Network
from gc_net.data import transforms
from gc_net.parametrizations.base import Parametrization
from gc_net.shapes.base import Shape


class Placement(NamedTuple):
    """Shapes placed in squashed images.

    Attributes:
        coefficients: [B, n], relative to the squashed images.
        boxes: [B, 4], the shapes' boxes, xyxy relative to the squashed images.
        windows: [B, S, S, 3], what the detector saw of the images.
        in_windows: [B, n], the coefficients relative to that.
        agreement: [B], IoU with the shapes of the mirrored windows; None where these were not
            looked at.
        confidence: [B], how far each shape can be trusted, see `Detector.place`; None where that
            was not asked for.
    """

    coefficients: Any
    boxes: Any
    windows: Any
    in_windows: Any
    agreement: Any = None
    confidence: Any = None


@keras.saving.register_keras_serializable(package="gc_net")
class Detector(Network):
    """Images to the coefficients of a shape, [B, n].

    Args:
        backbone: Name of a backbone.
        shape: Name of the shape that it places, or a `Shape`.
        image_size: Side of the square images; the backbone's own where it is None.
        head: `"native"` as in the paper, `"position"`, which keeps the feature map's positions, or
            `"edges"`, which looks at finer maps as well.
        parametrization: How the network's raw outputs become coefficients, see
            `gc_net.parametrizations`; `"sigmoid"` is the paper's. None for the head's own where it
            has one, and `"seamless"` elsewhere.
        weights: `"imagenet"`, a file path, or `None`.

    Example:
        detector = Detector("efficientnet_lite0", "rotated_ellipse", image_size=128)
        coefficients = detector(images)  # [B, 5]
    """

    def __init__(
        self,
        backbone: str | Backbone = "efficientnet_lite0",
        shape: str | Shape = "rotated_rectangle",
        image_size: int | None = None,
        head: str = "native",
        parametrization: str | Parametrization | None = None,
        weights: str | None = "imagenet",
        name: str = "detector",
        **kwargs: Any,
    ):
        shape, parametrization = shapes.get(shape), _parametrization(parametrization, head)
        num_outputs = parametrization.num_outputs(shape)
        super().__init__(backbone, num_outputs, image_size, head, weights, name, **kwargs)
        self.shape = shape
        self.parametrization = parametrization

    def raw(self, images: Any, training: bool = False) -> Any:
        """Return the network's raw outputs, [B, m]."""
        return super().call(images, training=training)

    def decode(self, raw: Any) -> Any:
        """Return the coefficients [B, n] that raw outputs [B, m] are."""
        return self.parametrization.decode(raw, self.shape)

    def call(self, images: Any, training: bool = False) -> Any:
        return self.decode(self.raw(images, training=training))

    def from_features(self, features: Any, training: bool = False) -> Any:
        """Return the coefficients [B, n] for what `features` gives of images."""
        return self.decode(self.head(features, training=training))

    def place(
        self,
        images: Any,
        judged: bool = False,
        mirror: bool = False,
        forward: Callable[[Any], Any] | None = None,
        raw: Any = None,
    ) -> Placement:
        """Place shapes in squashed images, whose central windows the network sees.

        A confidence is the IoU that the outputs let one expect, where they say how sure they are,
        as those of a head of edges do. Otherwise it is the IoU with the shape in the mirror image,
        for one more pass.

        Args:
            images: [B, R, R, 3], RGB in 0–255, with R at least the detector's image size.
            judged: Whether to give a confidence.
            mirror: Whether to look at the mirrored windows too, for the mean of both shapes.
            forward: Function of normalized images to raw outputs, of an engine that runs this
                network, see `gc_net.engines`; the network itself if None.
            raw: [B, m], the raw outputs for the windows, where they are known already.
        """
        resize_size, forward = images.shape[1], forward or self.from_normalized

        windows = self.windows(images)
        agreement = confidence = None
        if self.looks_twice(judged, mirror):
            views = [] if raw is not None else [windows]
            views.append(ops.flip(windows, axis=2))
            # One pass over both: fewer, larger operations.
            found = forward(self.normalize(ops.concatenate(views, axis=0)))
            *first, mirrored = ops.split(found, len(views), axis=0)
            raw = first[0] if first else raw
            mean, agreement = self.of_both(raw, mirrored)
            raw = mean if mirror else raw
        elif raw is None:
            raw = forward(self.normalize(windows))
        if judged:
            sure = self.parametrization.has_deviations
            confidence = self.parametrization.expected_iou(raw) if sure else agreement
        in_windows = self.decode(raw)
        window = transforms.center_window(resize_size, self.image_size)
        coefficients = self.shape.out_of_window(in_windows, window, resize_size, self.image_size)
        boxes = self.shape.boxes(coefficients)
        return Placement(coefficients, boxes, windows, in_windows, agreement, confidence)

    def windows(self, images: Any) -> Any:
        """Return what the network sees of squashed images: their central windows, float32."""
        return ops.cast(transforms.central(images, self.image_size), "float32")

    def looks_twice(self, judged: bool, mirror: bool) -> bool:
        """Return whether `place` looks at the mirrored windows too."""
        return mirror or (judged and not self.parametrization.has_deviations)

    def of_both(self, raw: Any, mirrored: Any) -> tuple[Any, Any]:
        """Return the mean of the raw outputs [B, m] for both, and the IoU [B] of both shapes.

        Args:
            raw, mirrored: [B, m], the raw outputs for images and for their mirror images.
        """
        both = raw, self.parametrization.mirrored(mirrored)
        return self.parametrization.mean(*both), self.shape.iou(*map(self.decode, both))

    def with_shape(self, shape: str | Shape) -> "Detector":
        """Return a detector with the same weights that places another shape.

        A head that finds edges and a mask tells all of a box, a rotated rectangle and an ellipse.
        Any other has learned one of them.

        Args:
            shape: Name of the shape, or a `Shape`.
        """
        shape = shapes.get(shape)
        if not heads.get(self.head_name).has_mask:
            raise ValueError(
                f"A detector with the head {self.head_name!r} has learned to place one shape, "
                f"{self.shape.name!r}, and cannot place another. Train one with "
                f"--detector_shape={shape.name}, or use --detector_head=edges, which fits all."
            )
        config = {**self.get_config(), "shape": shape.name}
        other = type(self).from_config(config)
        other.set_weights(self.get_weights())
        return other

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "shape": self.shape.name,
            "parametrization": self.parametrization.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Detector":
        config = dict(config)
        num_coefficients = config.pop("num_coefficients", None)
        if num_coefficients is not None:
            # A file from before detectors knew their shape and had a parametrization.
            upright = num_coefficients == shapes.get("rectangle").num_coefficients
            config.setdefault("shape", "rectangle" if upright else "rotated_rectangle")
            config.setdefault("parametrization", "sigmoid")
        return cls(**config)


def _parametrization(name, head):
    """Return the parametrization for a head; refuse one that cannot read its outputs."""
    own = parametrizations.of_head(head)
    found = parametrizations.get(name or own or "seamless")
    if own not in (None, found.name) or found.head not in (None, head):
        one = own or found.name
        raise ValueError(
            f"The head {head!r} and the parametrization {found.name!r} do not fit: {one!r} is both "
            f"a head and the parametrization of its outputs. Use head={one!r} without a "
            "parametrization, or another of both."
        )
    return found
