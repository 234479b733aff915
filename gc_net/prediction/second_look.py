"""The second look: close-ups of placed shapes, cut out of the original images and classified."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gc_net import engines
from gc_net.classifier import Classifier
from gc_net.data.crops import CloseUps
from gc_net.data.loading import Unreadable
from gc_net.data.splits import DataError, Split
from gc_net.engines.base import Engine
from gc_net.prediction.graph import classify


def close_up_graph(
    classifier: Classifier, engine: str | Engine = "tensorflow"
) -> Callable[[Any], Any]:
    """Return a graph of images, uint8 [B, S, S, 3], to their class probabilities [B, C].

    Args:
        classifier: The `Classifier` of the close-ups.
        engine: Name of what runs it, or an `Engine`, see `gc_net.engines`.
    """
    engine, size = engines.get(engine), classifier.image_size
    return tf.function(
        lambda images: classify(classifier, images, engine),
        input_signature=[tf.TensorSpec([None, size, size, 3], tf.uint8)],
        autograph=False,
    )


class SecondLook:
    """Classifies close-ups of shapes in the images of a split.

    Args:
        classifier: The `Classifier` of the close-ups.
        split: The `Split`.
        multiples: K sides of the regions, as multiples of the longer sides of the shapes' boxes.
        required: Whether an image that cannot be read a second time is an error. Otherwise a
            warning names it.
        engine: Name of what runs the classifier, or an `Engine`, see `gc_net.engines`.
        graph: The `close_up_graph` of both, where it is made already.

    Attributes:
        split: The split to read the images from before, see `CloseUps`.
        classify: Graph of images, uint8 [B, S, S, 3], to probabilities [B, C].
    """

    def __init__(
        self,
        classifier: Classifier,
        split: Split,
        multiples: Sequence[float],
        required: bool = False,
        engine: str | Engine = "tensorflow",
        graph: Callable[[Any], Any] | None = None,
    ):
        size = classifier.image_size
        self._num_classes = classifier.num_classes
        self._required = required
        self._unreadable = Unreadable(announce=not required)
        self._close_ups = CloseUps(split, size, multiples, unreadable=self._unreadable)
        self.split = self._close_ups.split
        self.classify = graph or close_up_graph(classifier, engine)

    def __call__(
        self, index: np.ndarray, boxes_rel_xyxy: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Look closer at shapes.

        Args:
            index: [B] places in the split.
            boxes_rel_xyxy: [B, 4], boxes of the shapes, relative to the whole images.

        Returns:
            probabilities: float32 [B, K, C]; NaN where an image could not be read again.
            readable: bool [B].
        """
        images, readable = self._close_ups.load(index, boxes_rel_xyxy)
        if self._required and not readable.all():
            raise DataError(
                "Images that could be read at first, or are in the cache of decoded images, cannot "
                f"be read for the second look. {self._unreadable.summary()}"
            )
        count = images.shape[1]
        probabilities = np.full((len(readable), count, self._num_classes), np.nan, np.float32)
        if readable.any():  # TensorFlow fails for empty batches on some CPUs
            for number in range(count):  # as many images at once as for the first look
                probabilities[readable, number] = self.classify(images[:, number])
        return probabilities, readable
