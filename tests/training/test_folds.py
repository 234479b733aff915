"""Cross-fitting: no image is supervised by a classifier that was fitted on it."""

import numpy as np
import pytest
import tensorflow as tf

from gc_net.classifier import Classifier
from gc_net.data.pipeline import training_batches
from gc_net.datasets.creatures import Creatures
from gc_net.training.folds import FoldClassifiers, assign_folds, fold_batches


@pytest.mark.parametrize("num_folds", [2, 3, 5])
def test_folds_are_even_over_all_and_within_each_class(num_folds):
    labels = np.random.default_rng(0).integers(0, 7, 200)
    folds = assign_folds(labels, num_folds, seed=4)
    assert np.ptp(np.bincount(folds, minlength=num_folds)) <= 1
    for label in range(7):
        assert np.ptp(np.bincount(folds[labels == label], minlength=num_folds)) <= 1


def test_folds_depend_on_the_seed_alone():
    labels = np.arange(60) % 5
    folds = assign_folds(labels, 2, seed=1)
    np.testing.assert_array_equal(folds, assign_folds(labels, 2, seed=1))
    assert (folds != assign_folds(labels, 2, seed=2)).any()


@pytest.fixture(scope="module")
def split():
    return Creatures(num_train=23, num_test=1, image_size=32, num_classes=3).split("train")


def index_batches(split, folds, num_folds, epoch=0, start_step=0, num_shards=1, shard_index=0):
    """Return the batches as a list of (indices, folds), with the index in place of the label."""

    def batches(**arguments):
        dataset = training_batches(
            split, image_size=16, batch_size=4, seed=2, with_index=True, **arguments
        )
        return dataset.map(lambda images, labels, index: (images, index))

    dataset = fold_batches(
        batches,
        folds,
        num_folds,
        epoch=epoch,
        start_step=start_step,
        num_shards=num_shards,
        shard_index=shard_index,
    )
    return [
        (index.numpy(), fold.numpy())
        for index, fold in ((t["labels"], t["folds"]) for _, t in dataset)
    ]


@pytest.mark.parametrize("num_folds", [2, 3])
def test_every_batch_is_of_one_fold_and_says_which(split, num_folds):
    folds = assign_folds(split.labels, num_folds, seed=0)
    found = index_batches(split, folds, num_folds)
    assert len(found) >= num_folds
    for step, (indices, fold) in enumerate(found):
        assert set(fold) == {step % num_folds}
        np.testing.assert_array_equal(folds[indices], fold)
    seen = np.concatenate([indices for indices, _ in found])
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("num_folds", [2, 3])
def test_an_epoch_resumed_at_any_step_gives_the_rest_of_it(split, num_folds):
    folds = assign_folds(split.labels, num_folds, seed=0)
    whole = index_batches(split, folds, num_folds, epoch=1)
    for start in range(len(whole)):
        rest = index_batches(split, folds, num_folds, epoch=1, start_step=start)
        assert len(rest) == len(whole) - start
        for (indices, fold), (expected, expected_fold) in zip(rest, whole[start:], strict=True):
            np.testing.assert_array_equal(indices, expected)
            np.testing.assert_array_equal(fold, expected_fold)


def test_shards_are_the_rows_of_the_same_batches(split):
    folds = assign_folds(split.labels, 2, seed=0)
    whole = index_batches(split, folds, 2)
    shards = [index_batches(split, folds, 2, num_shards=2, shard_index=i) for i in range(2)]
    for step, (indices, _) in enumerate(whole):
        np.testing.assert_array_equal(np.concatenate([shard[step][0] for shard in shards]), indices)


def test_the_fold_chooses_the_classifier_also_inside_a_graph():
    classifiers = [Classifier("tiny", num_classes=3, weights=None) for _ in range(2)]
    for number, classifier in enumerate(classifiers):
        classifier.head.get_layer("outputs").bias.assign([10.0 * number] * 3)
    folded = FoldClassifiers(classifiers)
    images = tf.random.stateless_normal((2, 32, 32, 3), (1, 2))

    @tf.function
    def logits(fold):
        with folded.supervising(fold):
            return folded.from_normalized(images)

    for number, classifier in enumerate(classifiers):
        np.testing.assert_allclose(
            logits(tf.constant(number)), classifier.from_normalized(images), rtol=1e-5
        )


def test_a_fold_must_be_said():
    folded = FoldClassifiers([Classifier("tiny", num_classes=3, weights=None)] * 2)
    with pytest.raises(ValueError, match="Set the fold"):
        folded.from_normalized(np.zeros((1, 32, 32, 3), np.float32))
