"""Class activation maps as a teacher."""

import types

import keras
import numpy as np
import pytest

from gc_net import backbones, shapes, teachers
from gc_net.classifier import Classifier
from gc_net.stages.run_folder import RunError
from gc_net.teachers.base import Lesson


def lesson(backbone="tiny", num_classes=3):
    keras.utils.set_random_seed(2)
    classifier = Classifier(backbone, num_classes, 32, weights=None)
    data = types.SimpleNamespace()
    return Lesson(data, shapes.get("rectangle"), backbones.get(backbone), "none", classifier)


def test_maps_are_the_evidence_for_the_classes_that_are_seen():
    given = lesson()
    classifier = given.classifier
    images = np.random.default_rng(0).uniform(0, 255, (4, 64, 64, 3)).astype("f4")
    maps = teachers.get("class_maps:image_size=64:level=0.3").fit_maps(given)
    # Position by position, with the classifier's own layers and in other words.
    trunk = given.backbone.trunk(64)
    trunk.set_weights(classifier.trunk.get_weights())
    features = np.asarray(trunk(classifier.normalize(images), training=False))
    outputs = classifier.head.layers[-1]
    kernel, bias = np.asarray(outputs.kernel), np.asarray(outputs.bias)
    expected = np.zeros(features.shape[:3])
    for image in range(4):
        logits = features[image].mean(axis=(0, 1)) @ kernel + bias
        shares = np.exp(logits) / np.exp(logits).sum()
        for row in range(features.shape[1]):
            for column in range(features.shape[2]):
                expected[image, row, column] = (features[image, row, column] @ kernel) @ shares
        low, high = expected[image].min(), expected[image].max()
        expected[image] = (expected[image] - low) / (high - low) - 0.3
    np.testing.assert_allclose(maps(images), expected, atol=1e-4)
    assert maps.image_size == 64 and features.shape[1] > classifier.trunk.output_shape[1]


def test_a_constant_map_shows_nothing():
    given = lesson()
    for layer in given.classifier.head.layers:
        layer.set_weights([0 * weight for weight in layer.get_weights()])
    maps = teachers.get("class_maps:image_size=32").fit_maps(given)
    assert (maps(np.zeros((1, 32, 32, 3), "f4")) <= 0).all()


def test_a_head_without_such_maps_is_refused_by_name():
    given = lesson()
    given.classifier = Classifier("tiny", 3, 32, head="position", weights=None)
    with pytest.raises(RunError, match=r"class_maps cannot teach.*one linear layer"):
        teachers.get("class_maps").check(given)
