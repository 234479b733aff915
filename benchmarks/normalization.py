"""What fused and folded batch normalizations save in a training step, beside Keras' own layers."""

import contextlib
from unittest import mock

import keras
import tensorflow as tf

import gc_net
from benchmarks.models import untrained_model
from benchmarks.rounds import conditions, in_turn, table
from benchmarks.step import noise, noise_of
from gc_net import optimizers
from gc_net.backbones import layers, network
from gc_net.training.masked_classifier import MaskedClassifier

PLAIN, FOLDED, FUSED, BOTH = "Keras' own", "folded alone", "fused alone", "both"
WAYS = (PLAIN, FOLDED, FUSED, BOTH)
CLASSIFIER, DETECTOR = "classifier", "detector by the losses"


def report(
    *,
    backbones=("efficientnet_lite0",),
    image_sizes=(128, 224),
    batch_size=16,
    rounds=3,
    seed=0,
    train_from="block4a",
):
    """Measure steps of the classifier and of the detector in all four ways.

    Args:
        backbones: Names of backbones.
        image_sizes: Sides to measure at.
        batch_size: Images B a step.
        rounds: How often each way has its turn.
        seed: Of the images and labels, which are noise.
        train_from: First layer that is trained, see `Network.freeze_before`; "" for all of them.
    """
    yield (
        f"{conditions()}, batches of {batch_size}, layers before {train_from or 'none'} frozen, "
        f"seed {seed}, medians of {rounds} rounds"
    )
    header = ["step", "backbone", "image size", f"{BOTH}, images/s"]
    header += [f"{way}, faster in processor time" for way in WAYS[1:]]
    rows = []
    for backbone in backbones:
        for image_size in image_sizes:
            for what in (CLASSIFIER, DETECTOR):
                timings = measure(what, backbone, image_size, batch_size, rounds, seed, train_from)
                speed = batch_size / timings.seconds(BOTH)
                ratios = [f"{timings.processor_ratio(PLAIN, way):.2f}×" for way in WAYS[1:]]
                rows.append([what, backbone, image_size, f"{speed:.2f}", *ratios])
    yield table(header, rows)


def measure(what, backbone, image_size, batch_size, rounds, seed=0, train_from="block4a"):
    """Return the `Timings` of a step in each of the ways."""
    return in_turn(steps(what, backbone, image_size, batch_size, seed, train_from), rounds)


def steps(what, backbone, image_size, batch_size, seed=0, train_from="block4a"):
    """Return a step of the same weights for each of the ways: {way: function of nothing}."""
    make = {CLASSIFIER: _classifier, DETECTOR: _detector}[what]
    found = {}
    for way in WAYS:
        keras.utils.set_random_seed(seed)
        model, images, labels = make(backbone, image_size, batch_size, seed, train_from)
        found[way] = _step(model, (images, labels))
        with built(way):
            found[way].get_concrete_function()  # traced here, for all calls
    return found


def _step(model, data):
    return tf.function(lambda: model.train_step(data))


@contextlib.contextmanager
def built(way):
    """Have graphs that are made in the block normalize in one of the ways."""
    with contextlib.ExitStack() as stack:
        if way in (PLAIN, FOLDED):
            own = keras.layers.BatchNormalization.call
            stack.enter_context(mock.patch.object(layers.BatchNormalization, "call", own))
        if way in (PLAIN, FUSED):
            stack.enter_context(mock.patch.object(network, "call_folded", _not_folded))
        yield


def _not_folded(model, inputs, training=False):
    return model(inputs, training=training)


def _classifier(backbone, image_size, batch_size, seed, train_from):
    classifier = gc_net.Classifier(backbone, 200, image_size, weights=None)
    _freeze(classifier, train_from)
    model = MaskedClassifier(classifier)
    return _compiled(model, *noise_of(image_size, 200, batch_size, seed))


def _detector(backbone, image_size, batch_size, seed, train_from):
    model = untrained_model(backbone, image_size)
    _freeze(model.detector, train_from)
    return _compiled(model, *noise(model, batch_size, seed))


def _freeze(network, train_from):
    if train_from:
        network.freeze_before(train_from)


def _compiled(model, images, labels):
    model.compile(optimizers.Adam(1e-4))
    model.optimizer.build(model.trainable_variables)
    return model, images, labels
