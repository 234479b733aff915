"""Trunks of integers give nearly the same, for shapes of every kind and images of every kind."""

import numpy as np
import pytest

import gc_net
from gc_net import engines
from gc_net.engines.base import EngineError
from gc_net.engines.int8 import Int8
from gc_net.prediction.predict_files import predict_files
from tests.engines.test_engines import localizer_of, squashed
from tests.engines.test_sharing import localizer_of as sharing_localizer
from tests.prediction.models import IMAGE_SIZE, encode, noise


def photos(count, seed=0):
    return np.stack([noise(60, 60, seed + number) for number in range(count)])


@pytest.fixture(scope="module")
def int8():
    return Int8(photos(20, seed=100))


@pytest.mark.parametrize("shape", ["rectangle", "rotated_ellipse"])
@pytest.mark.parametrize("head", ["native", "edges", "rated_edges"])
def test_shapes_and_classes_stay_near(int8, shape, head):
    localizer = localizer_of(shape, head)
    images = squashed(localizer, 12)
    expected = localizer.first_look(images)
    found = localizer.first_look(images, engine=int8)
    overlap = gc_net.metrics.box_iou(found["boxes"].numpy(), expected["boxes"].numpy())
    assert 0.9 < overlap.mean() < 1.0
    probabilities = found["class_probabilities"] - expected["class_probabilities"]
    assert 0.0 < np.abs(probabilities).mean() < 0.05
    # What it differs by is small beside what images differ by.
    spread = np.std(expected["coefficients"], axis=0).mean()
    assert np.abs(found["coefficients"] - expected["coefficients"]).mean() < 0.3 * spread


def test_levels_come_from_the_images_that_it_is_given(int8):
    localizer = localizer_of(head="edges")
    images = squashed(localizer, 12)
    expected = np.asarray(localizer.first_look(images)["boxes"])

    def overlap(engine):
        found = np.asarray(localizer.first_look(images, engine=engine)["boxes"])
        return gc_net.metrics.box_iou(found, expected).mean()

    grey = Int8(np.full((4, 60, 60, 3), 127, "uint8"))
    assert overlap(int8) > overlap(grey) + 0.02


@pytest.mark.parametrize("value", [0, 127, 255])
def test_shapes_that_rotate_are_placed_in_images_of_one_colour(int8, value):
    localizer = localizer_of("rotated_ellipse", "edges", mirror=True)
    images = np.full((2, localizer.resize_size, localizer.resize_size, 3), value, "uint8")
    assert np.isfinite(localizer.first_look(images, engine=int8)["coefficients"]).all()


def test_networks_with_the_same_first_layers_are_run_as_one(int8):
    localizer = sharing_localizer(mirror=True, second_look=1.3)
    assert localizer.pair(int8) is not None
    images = squashed(localizer, 8)
    expected, found = (localizer.first_look(images, engine=e) for e in ("tensorflow", int8))
    overlap = gc_net.metrics.box_iou(found["boxes"].numpy(), expected["boxes"].numpy())
    assert overlap.mean() > 0.9
    difference = found["class_probabilities"] - expected["class_probabilities"]
    assert np.abs(difference).mean() < 0.05


def test_every_map_goes_to_its_own_head(int8):
    # Both trunks end in maps of one size, which only their order tells apart.
    localizer = sharing_localizer(before="conv2", head="native")
    networks = localizer.detector, localizer.classifier
    images = np.stack([noise(IMAGE_SIZE, IMAGE_SIZE, seed) for seed in range(4)])
    images = localizer.classifier.normalize(images.astype("float32"))
    pair = int8.pair(*networks)
    for found, network in zip(pair.split(int8.forward(pair)(images)), networks, strict=True):
        expected = np.asarray(network.from_normalized(images))
        assert np.abs(found - expected).mean() < 0.2 * np.abs(expected).mean()


def test_it_needs_images(int8):
    for images in (None, []):
        with pytest.raises(EngineError, match="--calibration_images"):
            Int8(images)
    with pytest.raises(EngineError, match="--calibration_images"):
        engines.get("int8")
    assert engines.get(int8) is int8


def test_it_is_never_chosen_by_itself():
    localizer = localizer_of()
    assert engines.ready("auto", localizer.networks, 10**6).exact


def test_labels_of_integers_are_not_mixed_with_others(int8, tmp_path):
    localizer = localizer_of()
    localizer.save(tmp_path / "model")
    (tmp_path / "photos").mkdir()
    for number in range(3):
        (tmp_path / "photos" / f"{number}.png").write_bytes(encode(noise(40, 40, number)))
    arguments = [str(tmp_path / name) for name in ("model", "photos", "labels")]
    assert predict_files(*arguments, engine=int8).num_labelled == 3
    assert predict_files(*arguments, engine=int8).num_new == 0
    with pytest.raises(ValueError, match="made with other settings"):
        predict_files(*arguments, engine="xnnpack")
