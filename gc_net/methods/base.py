"""The base classes of methods."""

import abc
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from gc_net import heat_maps
from gc_net.classifier import Classifier
from gc_net.evaluation.protocols import Protocol
from gc_net.metrics import IOU_THRESHOLDS
from gc_net.training.masked_classifier import MaskedClassifier
from gc_net.training.masks import RandomMasks

TrainingBatches = Callable[[], Iterable[tf.Tensor]]


class Unsuitable(ValueError):
    """A method that this model does not allow; the message says why."""


class Forward(NamedTuple):
    """Tensors of a batch in the classifier; shared by all methods.

    Attributes:
        normalized: [B, S, S, 3], input of the trunk.
        descriptors: [B, h, w, C], output of the backbone's `descriptor_layer`.
        features: [B, h, w, C], output of the trunk.
        labels: [B] int32, the true classes.
        images: [B, S, S, 3] uint8, the images before normalization.
    """

    normalized: tf.Tensor
    descriptors: tf.Tensor
    features: tf.Tensor
    labels: tf.Tensor
    images: tf.Tensor | None = None


class Score(NamedTuple):
    """A row of the table, image by image.

    Attributes:
        name, title, tuned: As in `gc_net.evaluation.results.MethodResult`.
        iou: [N] float64, NaN without true boxes.
        hits: bool [L, N], whether image n is right at IoU level l of `metrics.IOU_THRESHOLDS`,
            for MaxBoxAccV2.
    """

    name: str
    title: str
    tuned: bool
    iou: np.ndarray
    hits: np.ndarray


class Method(abc.ABC):
    """How a classifier is trained, and how it finds objects.

    A method without a training of its own gets the same classifier as the others.
    """

    name: str
    title: str

    # Head of its classifier, one of `gc_net.heads`, and its training, see
    # `gc_net.methods.training`; None for plain fine-tuning.
    head: str = "native"
    training: type[MaskedClassifier] | None = None
    # A value in the maps' own units to cut them at; None if the protocol's levels are tried.
    cut: float | None = None

    @property
    def trains(self) -> bool:
        """Whether it needs a classifier of its own."""
        return self.training is not None or self.head != "native"

    @property
    def has_maps(self) -> bool:
        """Whether it finds boxes by heat maps."""
        return type(self).localize is not Method.localize

    def trained(
        self,
        classifier: Classifier,
        masks: RandomMasks | None = None,
        seed: int = 0,
        families: Sequence[str] | None = None,
    ) -> MaskedClassifier:
        """Return the model, not yet compiled, whose training trains `classifier`.

        Args:
            classifier: A new `Classifier` with this method's `head`.
            masks: A `RandomMasks` layer, or None.
            seed: Seed of random numbers in training.
            families: Name of the family of each class, or None; see `Dataset.class_families`.
        """
        if self.training is None:
            return MaskedClassifier(classifier, masks)
        return self.training(classifier, masks, seed=seed, families=families)

    def check(self, classifier: Classifier) -> None:
        """Raise `Unsuitable` if a classifier of this kind cannot be used, before it is trained.

        Args:
            classifier: A `Classifier` with any weights.
        """
        return None

    def fit(self, classifier: Classifier, training_batches: TrainingBatches) -> None:
        """Prepare the method: fit it, and raise `Unsuitable` if `classifier` cannot be used.

        Args:
            classifier: The trained `Classifier`.
            training_batches: Function that returns an iterable of image batches [B, S, S, 3] of
                the training split, without labels or boxes.
        """
        return None

    def localize(self, forward: Forward) -> tf.Tensor | None:
        """Return heat maps [B, h, w] of a batch, or None; runs inside a graph."""
        return None

    def boxes(self, maps: np.ndarray | None, num_images: int, image_size: int) -> np.ndarray:
        """Return the boxes of the first of its `scores`: `boxes_rel_xyxy` [B, 4].

        NaN if they are unknown, e.g. for a method with neither maps nor boxes of its own.

        Args:
            maps: [B, h, w], what `localize` returned, or None.
            num_images: B.
            image_size: Side of the frame, to which maps are enlarged.
        """
        if maps is None or (self.cut is None and not self.own_levels):
            return np.full((num_images, 4), np.nan)
        return heat_maps.boxes(maps, self.own_levels, image_size, self.cut)[:, 0]

    @property
    def own_levels(self) -> list[float]:
        """The level at which its maps are cut; empty if it has a `cut`."""
        return []

    @abc.abstractmethod
    def scores(
        self,
        protocol: Protocol,
        truth_boxes: np.ndarray,
        num_truth: np.ndarray,
        iou: np.ndarray,
        iou_v2: np.ndarray,
    ) -> list[Score]:
        """Return the `Score`s of all images; the first one measures the method.

        Args:
            protocol: The `Protocol`.
            truth_boxes, num_truth: [N, K, 4] and [N], in the protocol's units.
            iou, iou_v2: [N, T] of the heat maps' boxes at every level, see `Protocol.map_iou`;
                None for a method without maps.
        """


class HeatMapMethod(Method):
    """A method whose maps must be cut at some level.

    Attributes:
        level: Its authors' cut; 0 is a map's lowest value and 1 its highest.
        chosen_level: One that was chosen without boxes, see `gc_net.evaluation.levels`; None if
            none was.
    """

    level: float
    chosen_level: float | None = None

    @property
    def own_levels(self) -> list[float]:
        return [self.level]

    def scores(self, protocol: Protocol, truth_boxes, num_truth, iou, iou_v2) -> list[Score]:
        hits = hits_by_level(protocol, iou_v2)  # [L, N, T]

        def at(level, kind, title):
            place = int(np.abs(protocol.levels - level).argmin())
            title = f"{self.title}, {title}"
            return Score(f"{self.name}_{kind}", title, False, iou[:, place], hits[..., place])

        found = [at(self.level, "fixed", f"cut at {self.level:g}")]
        if self.chosen_level is not None:
            title = f"cut at {self.chosen_level:.3g}, chosen without boxes"
            found.append(at(self.chosen_level, "chosen", title))
        known = num_truth > 0
        best = int(protocol.hits(iou[known]).sum(axis=0).argmax())
        best_each = hits[:, known].sum(axis=1).argmax(axis=-1)  # [L]
        found.append(
            Score(
                f"{self.name}_best",
                f"{self.title}, best cut {protocol.levels[best]:.3g}",
                True,
                iou[:, best],
                np.take_along_axis(hits, best_each[:, None, None], axis=-1)[..., 0],
            )
        )
        return found


def hits_by_level(protocol: Protocol, iou: np.ndarray) -> np.ndarray:
    """Return whether each IoU is right at 0.3, 0.5 and 0.7: [...] to bool [L, ...]."""
    return np.stack([protocol.hits(iou, threshold) for threshold in IOU_THRESHOLDS])
