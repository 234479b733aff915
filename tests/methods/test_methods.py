"""Methods on networks small enough to know by hand what they must give."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from gc_net import heat_maps, methods
from gc_net.backbones.layers import outputs, pooled_head
from gc_net.evaluation import protocols
from gc_net.methods.base import Forward, Unsuitable
from gc_net.methods.constant import Constant, centred
from gc_net.teachers.descriptors import Transform
from gc_net.weights import save_weights_npz
from tests.evaluation.models import tiny_model

SIDE = 8
# Class 0 likes red, class 1 likes blue, class 2 likes red and dislikes blue.
WEIGHTS = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, -1.0]], np.float32)


def colour_network():
    """A network whose two feature channels are the red and the blue of each pixel."""
    image = keras.Input((SIDE, SIDE, 3))
    convolution = keras.layers.Conv2D(2, 1, use_bias=False)
    trunk = keras.Model(image, convolution(image))
    convolution.kernel.assign(np.array([[1, 0], [0, 0], [0, 1]], np.float32)[None, None])
    head = pooled_head(3, (SIDE, SIDE, 2), dropout=0.2, name="head")
    head.get_layer("outputs").kernel.assign(WEIGHTS)

    def from_normalized(normalized, training=False):
        return head(trunk(normalized, training=training), training=training)

    return types.SimpleNamespace(
        trunk=trunk, head=head, head_name="native", from_normalized=from_normalized
    )


def red_and_blue():
    """An image with a red block at the upper left and a blue one at the lower right."""
    image = np.zeros((SIDE, SIDE, 3), np.float32)
    image[1:4, 1:3, 0] = 5.0
    image[5:8, 4:8, 2] = 2.0
    return image


def maps_of(name, network, image, labels):
    method = methods.get(name)
    method.fit(network, lambda: [])
    images = tf.constant(np.repeat(image[None], len(labels), axis=0))
    features = network.trunk(images)
    forward = Forward(images, features, features, tf.constant(labels, tf.int32))
    return tf.function(method.localize)(forward).numpy()


class TestCAM:
    def test_is_the_weighted_sum_of_the_channels(self):
        image = red_and_blue()
        red, blue = image[..., 0], image[..., 2]
        maps = maps_of("cam", colour_network(), image, [0, 1, 2])
        np.testing.assert_allclose(maps, [red, 3 * blue, 2 * red - blue])

    def test_finds_the_block_of_the_class(self):
        protocol = protocols.get("paper")
        maps = maps_of("cam", colour_network(), red_and_blue(), [0, 1])
        truth = np.array([[[1, 1, 3, 4]], [[4, 5, 8, 8]]]) / SIDE
        iou, _ = protocol.map_iou(maps, truth, np.ones(2, int), SIDE)
        np.testing.assert_allclose(iou, 1.0)

    def test_averaged_over_positions_is_the_class_score_without_its_bias(self):
        network, image = colour_network(), np.random.default_rng(0).random((SIDE, SIDE, 3))
        image = image.astype(np.float32)
        maps = maps_of("cam", network, image, [0, 1, 2])
        np.testing.assert_allclose(
            maps.mean(axis=(1, 2)), network.from_normalized(image[None])[0], rtol=1e-5
        )

    def test_says_which_head_it_needs(self):
        inputs = keras.Input((SIDE, SIDE, 2))
        flat = keras.layers.Flatten(name="flatten")(inputs)
        network = types.SimpleNamespace(
            head=keras.Model(inputs, outputs(3)(flat)),
            head_name="native",
            backbone=types.SimpleNamespace(name="vgg16"),
        )
        with pytest.raises(Unsuitable, match=r"one linear layer.*'vgg16'.*flatten.*Grad-CAM"):
            methods.get("cam").fit(network, lambda: [])


class TestGradCAM:
    def test_of_a_pooled_head_is_cam_without_its_negative_part(self):
        network, image = colour_network(), red_and_blue()
        labels = [0, 1, 2]
        cam = maps_of("cam", network, image, labels)
        expected = np.maximum(cam, 0) / SIDE**2  # the average's derivative
        maps = maps_of("grad_cam", network, image, labels)
        np.testing.assert_allclose(maps, expected, rtol=1e-5)
        assert (cam < 0).any()

    def test_works_with_a_head_that_keeps_positions(self):
        classifier = tiny_model(head="position").classifier
        method = methods.get("grad_cam")
        method.fit(classifier, lambda: [])
        features = tf.random.stateless_uniform((2, 4, 4, 32), (1, 2))
        maps = method.localize(Forward(None, None, features, tf.constant([0, 2])))
        assert maps.shape == (2, 4, 4)
        assert np.all(maps >= 0) and np.isfinite(maps).all()


class TestGradCAMPlusPlus:
    def test_weighs_a_channel_by_how_its_gradients_stand_to_its_sum(self):
        network, image = colour_network(), red_and_blue()
        red, blue = image[..., 0], image[..., 2]
        maps = maps_of("grad_cam_pp", network, image, [0, 1, 2])
        # All gradients of a channel are w / 64, so that α = 1 / (2 + Σf · w / 64) at 64 positions.
        weights = [w / (2 + total * w / 64) for w, total in ((1, 30), (3, 24), (2, 30))]
        expected = [weights[0] * red, weights[1] * blue, weights[2] * red]
        np.testing.assert_allclose(maps, expected, rtol=1e-5)

    def test_a_feature_without_any_gradient_has_no_weight(self):
        maps = maps_of("grad_cam_pp", colour_network(), 0 * red_and_blue(), [0])
        np.testing.assert_array_equal(maps, 0.0)


class TestLayerCAM:
    def test_weighs_each_position_by_its_own_gradient(self):
        kernel = np.random.default_rng(0).normal(size=(SIDE, SIDE, 2, 3)).astype(np.float32)
        network = colour_network()
        network.head = lambda x, training=False: tf.einsum("bhwc,hwck->bk", x, kernel)
        image = np.random.default_rng(1).normal(size=(SIDE, SIDE, 3)).astype(np.float32)
        maps = maps_of("layer_cam", network, image, [0, 2])
        features = image[..., [0, 2]]
        for found, label in zip(maps, (0, 2), strict=True):
            expected = (np.maximum(kernel[..., label], 0) * features).sum(axis=-1)
            np.testing.assert_allclose(found, np.maximum(expected, 0), rtol=1e-5, atol=1e-6)

    def test_of_a_pooled_head_leaves_out_what_speaks_against_the_class(self):
        image = red_and_blue()
        maps = maps_of("layer_cam", colour_network(), image, [2])
        np.testing.assert_allclose(maps[0], 2 * image[..., 0] / SIDE**2, rtol=1e-5)


class TestSaliency:
    def test_is_brightest_where_the_score_depends_on_a_pixel(self):
        size = 32
        kernel = np.zeros((size, size, 3, 2), np.float32)
        kernel[10, 20, 1, 0] = -7.0  # a negative influence counts as well
        kernel[25, 5, 2, 1] = 4.0

        def from_normalized(normalized, training=False):
            return tf.einsum("bhwc,hwck->bk", normalized, kernel)

        method = methods.get("saliency")
        method.fit(types.SimpleNamespace(from_normalized=from_normalized), lambda: [])
        images = tf.zeros((2, size, size, 3))
        maps = method.localize(Forward(images, None, None, tf.constant([0, 1]))).numpy()
        peaks = [np.unravel_index(single.argmax(), single.shape) for single in maps]
        assert peaks == [(10, 20), (25, 5)]
        np.testing.assert_allclose(maps.sum(axis=(1, 2)), [7.0, 4.0], rtol=1e-3)  # only spread out

    def test_an_even_gradient_stays_even_up_to_the_border(self):
        method = methods.get("saliency")
        network = types.SimpleNamespace(
            from_normalized=lambda x, training=False: tf.reduce_sum(x, axis=(1, 2))
        )
        method.fit(network, lambda: [])
        maps = method.localize(Forward(tf.ones((1, 32, 32, 3)), None, None, tf.constant([0])))
        np.testing.assert_allclose(maps, 1.0, rtol=1e-5)


class TestDDT:
    def descriptors(self, count=20):
        """Descriptors that point one way on an object in the middle, another way around it."""
        rng = np.random.default_rng(0)
        values = rng.normal([1, 2, 3, 4, 5], 0.1, (count, 7, 7, 5))
        values[:, 2:5, 2:5] += [3, 0, -3, 0, 0]
        return values

    def test_is_the_first_principal_component(self):
        values = self.descriptors()
        transform = Transform(lambda images: images)
        transform.fit(np.split(values, 4))
        mean, direction = transform.mean, transform.direction
        flat = values.reshape(-1, 5)
        np.testing.assert_allclose(mean, flat.mean(axis=0), rtol=1e-5)
        expected = np.linalg.svd(flat - flat.mean(axis=0), full_matrices=False)[2][0]
        assert abs(expected @ direction) == pytest.approx(1.0, abs=1e-5)

    @pytest.mark.parametrize("sign", [1, -1])
    def test_is_positive_on_the_object_whichever_way_descriptors_point(self, sign):
        values = sign * self.descriptors()
        method = methods.get("ddt")
        method._transform = Transform(lambda images: images)
        method._transform.fit([values])
        maps = method.localize(Forward(None, tf.constant(values, tf.float32), None, None)).numpy()
        inside = np.zeros((7, 7), bool)
        inside[2:5, 2:5] = True
        assert (maps[:, inside] > 0).all() and (maps[:, ~inside] < 0).all()

    def test_needs_training_images(self):
        with pytest.raises(Unsuitable, match="no training image"):
            methods.get("ddt").fit(tiny_model().classifier, lambda: [])

    def test_with_imagenet_weights_equals_that_of_a_classifier_which_has_them(
        self, monkeypatch, tmp_path
    ):
        classifier = tiny_model().classifier
        path = tmp_path / "imagenet.npz"
        save_weights_npz(path, classifier, dtype="float32")
        monkeypatch.setattr(
            type(classifier.backbone), "imagenet_weights", lambda self, with_head: path
        )
        images = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3)).astype(np.uint8)
        normalized = classifier.normalize(images)
        descriptors = classifier.trunk(normalized)
        forward = Forward(normalized, descriptors, descriptors, None)
        maps = {}
        for name in ("ddt", "ddt_imagenet"):
            if name == "ddt_imagenet":
                # What the classifier has learned since must not matter.
                classifier.trunk.set_weights([0 * w for w in classifier.trunk.get_weights()])
            method = methods.get(name)
            method.fit(classifier, lambda: [images])
            maps[name] = method.localize(forward).numpy()
        np.testing.assert_allclose(maps["ddt"], maps["ddt_imagenet"], rtol=1e-4, atol=1e-5)
        assert maps["ddt"].std() > 0

    def test_silhouettes_cut_out_of_the_image_what_the_descriptors_find(self):
        values = self.descriptors(4)
        images = np.full((4, 70, 70, 3), 60, np.uint8)
        images[:, 24:46, 22:48] = [200, 90, 30]  # within the 30 pixels of the object's descriptors
        method = methods.get("silhouettes")
        method._transform = Transform(lambda images: images)
        method._transform.fit([values])
        method._describe_normalized = lambda normalized, training: normalized
        normalized = tf.constant(values, tf.float32)

        @tf.function
        def run(images):
            return method.localize(Forward(normalized, None, None, None, images))

        boxes = heat_maps.boxes(run(images).numpy(), None, 70, cut=method.cut)[:, 0]
        expected = [[22 / 70, 24 / 70, 48 / 70, 46 / 70]]
        np.testing.assert_allclose(boxes, np.repeat(expected, 4, axis=0), atol=0.03)

    def test_says_where_imagenet_weights_cannot_be_had(self):
        with pytest.raises(Unsuitable, match="'tiny' has no ImageNet weights"):
            methods.get("ddt_imagenet").fit(tiny_model().classifier, lambda: [])

    def test_weights_that_cannot_be_downloaded_are_no_reason_to_end(self, monkeypatch):
        def fail(*arguments, **keywords):
            raise RuntimeError("no network")

        classifier = tiny_model().classifier
        monkeypatch.setattr(type(classifier.backbone), "load_weights", fail)
        with pytest.raises(Unsuitable, match=r"are not available\. no network"):
            methods.get("ddt_imagenet").fit(classifier, lambda: [])


class TestConstant:
    def test_finds_the_centred_box_that_fits_most_images(self):
        truth = np.concatenate([np.tile(centred(0.5, 0.8), (6, 1)), [[0, 0, 0.1, 0.1]] * 2])
        scores = Constant().scores(
            protocols.get("paper"), truth[:, None], np.ones(8, int), None, None
        )
        fixed, best = scores
        assert (fixed.name, fixed.tuned) == ("constant_fixed", False)
        assert (best.name, best.tuned) == ("constant_best", True)
        assert (best.iou > 0.5).sum() == 6

    def test_no_centred_box_of_a_finer_search_is_right_more_often(self):
        rng = np.random.default_rng(1)
        centre, size = rng.uniform(0.3, 0.7, (200, 1, 2)), rng.uniform(0.2, 0.9, (200, 1, 2))
        truth = np.concatenate([centre - size / 2, centre + size / 2], axis=-1)
        protocol, count = protocols.get("paper"), np.ones(200, int)
        width, height = Constant().best(protocol, truth, count)
        best = protocol.hits(protocol.box_iou(centred(width, height)[None], truth, count)).sum()
        sides = np.arange(0.3, 1.2, 0.04)
        for side in sides:
            boxes = centred(side, sides)[None]
            assert protocol.hits(protocol.box_iou(boxes, truth, count)).sum(axis=0).max() <= best


class TestLevels:
    def test_the_fixed_level_is_not_tuned_and_the_best_one_is(self):
        protocol = protocols.get("paper")
        iou = np.zeros((4, len(protocol.levels)))
        iou[:3, 30] = 0.6  # three right at this level
        iou[3, 5] = 0.9
        iou[:2, 12] = 0.75  # best at IoU 0.7
        fixed, best = methods.get("cam").scores(protocol, None, np.ones(4, int), iou, iou)
        assert not fixed.tuned and best.tuned
        np.testing.assert_array_equal(fixed.iou, iou[:, 7])  # 0.2 is the eighth of 39 levels
        np.testing.assert_array_equal(best.iou, iou[:, 30])
        assert best.hits.sum(axis=1).tolist() == [3, 3, 2]

    def test_images_without_boxes_have_no_say_in_the_best_level(self):
        protocol = protocols.get("paper")
        iou = np.full((3, len(protocol.levels)), np.nan)
        iou[0] = 0.0
        iou[0, 4] = 0.6
        _, best = methods.get("cam").scores(protocol, None, np.array([1, 0, 0]), iou, iou)
        assert best.iou[0] == 0.6
        assert np.isnan(best.iou[1:]).all()
