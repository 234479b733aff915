"""Tiny models whose answers are known."""

import cv2
import keras
import numpy as np

import gc_net
from gc_net.generators.model import ModelGenerator

CLASS_NAMES = ("ant, red", 'the "bee"', "Küken 雛")
IMAGE_SIZE = 32


def tiny_model(shape="rotated_ellipse", num_classes=3):
    """Return a `GCNet` of untrained tiny networks."""
    # Each coefficient is an output of its own, so that any can be said exactly.
    detector = gc_net.Detector("tiny", shape, IMAGE_SIZE, parametrization="sigmoid", weights=None)
    classifier = gc_net.Classifier("tiny", num_classes, IMAGE_SIZE, weights=None)
    return gc_net.GCNet(detector, ModelGenerator(shape, IMAGE_SIZE), classifier)


def always_say(model, coefficients=None, class_logits=None):
    """Make the detector or the classifier say the same of every image."""
    if coefficients is not None:
        encode = model.detector.parametrization.encode
        _say(model.detector, np.asarray(encode(np.array(coefficients, "float32"), model.shape)))
    if class_logits is not None:
        _say(model.classifier, class_logits)


def _say(network, values):
    outputs = network.head.get_layer("outputs")
    outputs.kernel.assign(np.zeros(outputs.kernel.shape))
    outputs.bias.assign(values)


def varied_model(shape="rotated_ellipse", seed=0, **options):
    """Return a `GCNet` whose answers differ much from image to image."""
    keras.utils.set_random_seed(seed)
    model = tiny_model(shape, **options)
    random = np.random.default_rng(seed)
    for network in (model.detector, model.classifier):
        kernel = network.head.get_layer("outputs").kernel
        kernel.assign(random.normal(0, 3, kernel.shape))
    return model


def noise(height, width, seed=0):
    """Return a smooth random RGB image, uint8 [height, width, 3]."""
    small = np.random.default_rng(seed).integers(0, 256, (5, 5, 3), dtype=np.uint8)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR)


def encode(image, suffix=".png"):
    """Return an RGB image as the bytes of a file."""
    return cv2.imencode(suffix, image[..., ::-1])[1].tobytes()
