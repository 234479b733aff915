"""Cross-fitting: a classifier that was not fitted on an image judges it."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from gc_net.model import GCNet
from gc_net.training.devices import alternate

if TYPE_CHECKING:
    from gc_net.classifier import Classifier


def assign_folds(labels: np.ndarray, num_folds: int, seed: int) -> np.ndarray:
    """Return the fold [N] of each image; every class is spread evenly over the folds.

    Args:
        labels: [N] integers.
    """
    rng = np.random.default_rng((seed, num_folds))
    folds = np.empty(len(labels), np.int64)
    offset = 0
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        # If a class does not divide evenly, the next class begins with the fold that has fewer.
        folds[members] = (np.arange(len(members)) + offset) % num_folds
        offset += len(members)
    return folds


def fold_batches(
    batches: Callable[..., tf.data.Dataset],
    folds: np.ndarray,
    num_folds: int,
    *,
    epoch: int,
    start_step: int,
    num_shards: int,
    shard_index: int,
) -> tf.data.Dataset:
    """Return one epoch of batches, each from a single fold; the folds take turns.

    Args:
        batches: Function of `indices` and the arguments here to the batches of these images, like
            `pipeline.training_batches`.
        folds: [N] fold of each image.

    Returns:
        A tf.data.Dataset of (images, targets), the latter a dict of `labels` and `folds`, [B] each.
    """

    def one_fold(fold):
        dataset = batches(
            indices=np.flatnonzero(folds == fold),
            epoch=epoch,
            # Steps are counted over all folds; this is how many of them were this fold's.
            start_step=(start_step + num_folds - 1 - fold) // num_folds,
            num_shards=num_shards,
            shard_index=shard_index,
        )
        number = tf.constant(fold, tf.int32)
        return dataset.map(
            lambda images, labels: (
                images,
                {"labels": labels, "folds": tf.fill(tf.shape(labels), number)},
            )
        )

    return alternate([one_fold(fold) for fold in range(num_folds)], start_step)


class FoldClassifiers(keras.Model):
    """Several classifiers in the place of one; one is chosen for each batch.

    Args:
        classifiers: One `Classifier` per fold, each fitted on the other folds.
    """

    def __init__(
        self, classifiers: "Sequence[Classifier]", name: str = "classifiers", **kwargs: Any
    ):
        super().__init__(name=name, **kwargs)
        self.classifiers = list(classifiers)
        self.image_size = classifiers[0].image_size
        self.num_classes = classifiers[0].num_classes
        self._fold = None
        self.built = True

    @contextlib.contextmanager
    def supervising(self, fold: tf.Tensor) -> Iterator[None]:
        """Judge images of this fold, a scalar tensor, within the `with` block."""
        self._fold = fold
        try:
            yield
        finally:
            self._fold = None

    def normalize(self, images: Any) -> Any:
        return self.classifiers[0].normalize(images)

    def from_normalized(self, normalized: Any, training: bool = False, folded: bool = False) -> Any:
        if self._fold is None:
            raise ValueError("Set the fold of the images with `supervising`.")
        # Only the chosen branch is computed.
        return tf.switch_case(
            self._fold,
            [
                lambda classifier=classifier: classifier.from_normalized(
                    normalized, training, folded
                )
                for classifier in self.classifiers
            ],
        )


class CrossFittedGCNet(GCNet):
    """A `GCNet` for training, whose classifier is chosen by the fold of the batch.

    Its targets are dicts of `labels` [B] and `folds` [B], as in `fold_batches`. All images of a
    batch are of one fold.

    Args:
        classifier: A `FoldClassifiers`.
    """

    def train_step(self, data):
        return self._with_fold(super().train_step, data)

    def test_step(self, data):
        return self._with_fold(super().test_step, data)

    def _with_fold(self, step, data):
        images, targets, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if not isinstance(targets, dict) or {"labels", "folds"} - set(targets):
            raise ValueError(
                "Targets must be a dict of `labels` and `folds`, see `fold_batches`. Received: "
                f"{type(targets).__name__}"
            )
        # Keras gives an array of weights to each target.
        if isinstance(sample_weight, dict):
            sample_weight = sample_weight["labels"]
        with self.classifier.supervising(targets["folds"][0]):
            return step((images, targets["labels"], sample_weight))
