"""How methods train their classifiers: what they do to images, features and labels, by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gc_net import methods
from gc_net.classifier import Classifier
from gc_net.losses.classes import ClassLoss
from gc_net.methods import acol, adl, cutmix, danet, has, spg
from gc_net.methods.base import Forward
from gc_net.saving import load_model, save_model

TRAINING = [name for name in methods.METHODS if methods.get(name).trains]


def tiny(head="native", size=32, num_classes=3):
    keras.utils.set_random_seed(1)
    return Classifier("tiny", num_classes, size, head, weights=None)


def trained(name, **options):
    method = methods.get(name)
    model = method.trained(tiny(method.head, **options), seed=5)
    model.compile(optimizer=keras.optimizers.SGD(0.05), loss=ClassLoss(), jit_compile=False)
    return model


def batch(count=6, size=32, seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, size, size, 3)).astype(np.uint8)
    return images, rng.integers(0, 3, count).astype(np.int32)


@pytest.mark.parametrize("name", TRAINING)
class TestEach:
    def test_trains_a_classifier_that_is_saved_and_loaded_as_one(self, name, tmp_path):
        model = trained(name)
        images, labels = batch()
        before = model.classifier.get_weights()
        history = model.fit(images, labels, epochs=2, batch_size=3, verbose=0).history
        assert np.isfinite(history["loss"]).all() and 0 <= history["accuracy"][0] <= 1
        changed = zip(before, model.classifier.get_weights(), strict=True)
        assert any((old != new).any() for old, new in changed)
        save_model(tmp_path, model.classifier, ("a", "b", "c"))
        loaded = load_model(tmp_path).model
        np.testing.assert_allclose(loaded(images), model.classifier(images), atol=1e-5)

    def test_images_are_seen_as_they_are_outside_of_training(self, name):
        model = trained(name)
        images, _ = batch()
        outputs = model(images)
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs
        np.testing.assert_allclose(logits, model.classifier(images), atol=1e-5)

    def test_draws_the_same_with_the_same_seed_and_goes_on_from_its_variables(self, name):
        # SPG compares maps with thresholds: here no cell lies so near one that rounding decides.
        images, labels = batch(count=2, seed=4) if name == "spg" else batch()

        def losses(model, count):
            if name == "spg":
                # Larger steps bring cells near a threshold, whose side then depends on rounding.
                model.optimizer.learning_rate = 1e-6
            return [float(model.train_on_batch(images, labels)[0]) for _ in range(count)]

        model = trained(name)
        first = losses(model, 2)
        state = [np.array(variable) for variable in model.variables]
        rest = losses(model, 2)
        again = trained(name)
        assert losses(again, 2) == pytest.approx(first, rel=1e-5)
        for variable, value in zip(again.variables, state, strict=True):
            variable.assign(value)
        assert losses(again, 2) == pytest.approx(rest, rel=1e-4)

    def test_localizes_by_maps_of_the_trained_classifier(self, name):
        method, model = methods.get(name), trained(name)
        method.fit(model.classifier, lambda: [])
        images, labels = batch()
        normalized = model.classifier.normalize(images)
        features = model.classifier.trunk(normalized)
        maps = method.localize(Forward(normalized, features, features, labels, images))
        assert maps.shape[0] == 6 and len(maps.shape) == 3 and np.isfinite(maps).all()


def test_methods_without_a_training_of_their_own_take_the_plain_one():
    assert not methods.get("cam").trains
    plain = methods.get("cam").trained(tiny())
    assert type(plain).__name__ == "MaskedClassifier"


class TestHaS:
    @pytest.mark.parametrize(("number", "cells"), list(enumerate(has.GRIDS)))
    def test_whole_cells_of_a_grid_are_hidden(self, number, cells, monkeypatch):
        monkeypatch.setattr(keras.random, "randint", lambda shape, *a, **k: tf.fill(shape, number))
        size = 140  # a multiple of all grids
        shown = trained("has").draw(tf.constant(40), size).numpy()[..., 0]
        side = size // cells
        blocks = shown.reshape(40, cells, side, cells, side)
        assert (blocks == blocks[:, :, :1, :, :1]).all()
        assert set(np.unique(shown)) == {0.0, 1.0}
        assert 1 - blocks[:, :, 0, :, 0].mean() == pytest.approx(has.HIDDEN, abs=0.06)
        assert (blocks[0] != blocks[1]).any()

    def test_one_image_in_five_is_shown_whole(self):
        shown = trained("has").draw(tf.constant(500), 28).numpy()
        assert np.mean(shown.all(axis=(1, 2, 3))) == pytest.approx(0.2, abs=0.06)

    def test_hidden_pixels_have_the_mean_colour(self):
        model = trained("has", size=28)
        images = np.random.default_rng(0).integers(0, 256, (50, 28, 28, 3))
        normalized = model.classifier.normalize(images)
        seen = model.augment(normalized)[0].numpy()
        hidden = (seen == 0).all(axis=-1)
        assert 0.2 < hidden.mean() < 0.6
        np.testing.assert_array_equal(seen[~hidden], normalized.numpy()[~hidden])
        # What a zero stands for, see `Backbone.normalizer`.
        mean = np.full((1, 28, 28, 3), 127.0)
        np.testing.assert_allclose(model.classifier.normalize(mean), 0.0, atol=1e-6)


class TestCutMix:
    def test_the_rectangle_and_its_share_by_hand(self):
        outside, share = cutmix.cut_out(tf.constant(0.75), tf.constant(0.5), tf.constant(0.5), 8)
        expected = np.ones((8, 8))
        expected[2:6, 2:6] = 0  # a quarter of the pixels
        np.testing.assert_array_equal(outside, expected)
        assert share == 0.75

    def test_what_the_border_cuts_off_is_not_counted(self):
        outside, share = cutmix.cut_out(tf.constant(0.75), tf.constant(0.0), tf.constant(0.5), 8)
        expected = np.ones((8, 8))
        expected[2:6, :2] = 0
        np.testing.assert_array_equal(outside, expected)
        assert share == 1 - 8 / 64

    def test_the_rectangle_is_the_partners(self):
        model = trained("cutmix")
        own = tf.reshape(tf.range(1.0, 9.0), (8, 1, 1, 1)) * tf.ones((1, 32, 32, 3))
        mixed, noted = model.augment(own)
        partners = noted["partners"].numpy() + 1
        assert sorted(partners) == list(range(1, 9))
        for row, image in enumerate(mixed.numpy()):
            assert set(np.unique(image)) <= {row + 1, partners[row]}
            if partners[row] != row + 1:
                assert (image == row + 1).mean() == pytest.approx(float(noted["share"]))

    def test_labels_count_by_their_share(self):
        model = trained("cutmix")
        logits = np.float32([[1, 2, 3], [3, 0, 0]])
        outputs = {
            "logits": tf.constant(logits),
            "partners": tf.constant([1, 0]),
            "share": tf.constant(0.7),
        }
        log = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        expected = [-0.7 * log[0, 2] - 0.3 * log[0, 0], -0.7 * log[1, 0] - 0.3 * log[1, 2]]
        found = model.class_loss(tf.constant([2, 0]), outputs)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


class TestADL:
    features = np.float32([[[1.0, 3.0], [5.0, 7.0]], [[8.0, 8.0], [9.0, 11.0]]])[None]
    attention = np.float32([[2.0, 6.0], [8.0, 10.0]])[None, :, :, None]

    def test_the_strongest_positions_are_dropped(self, monkeypatch):
        monkeypatch.setattr(adl, "DROP_RATE", 1.0)
        layer = adl.AttentionDropout(keras.random.SeedGenerator(0))
        # 8 is 0.8 of the highest, 10, and does not exceed it.
        kept = np.float32([[1, 1], [1, 0]])[None, :, :, None]
        np.testing.assert_array_equal(adl.drop_mask(self.attention), kept)
        found = layer(self.features, training=True)
        np.testing.assert_allclose(found, self.features * kept, rtol=1e-6)

    def test_or_else_the_map_is_weighed_by_its_importance(self, monkeypatch):
        monkeypatch.setattr(adl, "DROP_RATE", 0.0)
        layer = adl.AttentionDropout(keras.random.SeedGenerator(0))
        importance = 1 / (1 + np.exp(-self.attention))
        found = layer(self.features, training=True)
        np.testing.assert_allclose(found, self.features * importance, rtol=1e-5)

    def test_three_steps_in_four_drop(self):
        layer = adl.AttentionDropout(keras.random.SeedGenerator(3))
        drops = [float(layer(self.features, training=True)[0, 1, 1, 0]) == 0 for _ in range(300)]
        assert np.mean(drops) == pytest.approx(0.75, abs=0.08)

    def test_each_image_has_its_own_highest_attention(self):
        both = np.concatenate([self.attention, 10 * self.attention])
        np.testing.assert_array_equal(adl.drop_mask(both)[0], adl.drop_mask(both)[1])

    def test_layers_stand_behind_the_last_map_of_each_resolution(self):
        model = trained("adl")
        names = [layer.name for layer in model.trunk.layers]
        for place in ("relu1", "relu2", "relu3"):
            assert names[names.index(place) + 1] == f"adl_{place}"

    def test_the_network_keeps_its_weights_and_gets_no_others(self):
        model = trained("adl")
        own = {id(variable) for variable in model.classifier.trainable_variables}
        assert {id(variable) for variable in model.trainable_variables} == own
        assert len(model.trainable_variables) == len(own)


def test_gmp_takes_the_maximum_over_positions():
    head = tiny("max").head
    features = np.random.default_rng(0).normal(size=(2, 4, 4, 32)).astype(np.float32)
    kernel, bias = (np.array(value) for value in head.get_layer("outputs").weights)
    expected = features.max(axis=(1, 2)) @ kernel + bias
    np.testing.assert_allclose(head(features), expected, rtol=1e-4, atol=1e-5)


class TestACoL:
    maps = np.float32([[0, 5], [10, 7]])[None]  # normalized: 0, 0.5, 1, 0.7

    def test_maps_are_normalized_image_by_image(self):
        both = np.concatenate([self.maps, 3 * self.maps - 4])
        found = acol.normalized(both)
        np.testing.assert_allclose(found[0], [[0, 0.5], [1, 0.7]], rtol=1e-6)
        np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
        np.testing.assert_array_equal(acol.normalized(np.ones((1, 2, 2), np.float32)), 0.0)

    def test_the_second_branch_is_shown_what_the_first_has_not_found(self):
        head = tiny("acol").head
        features = tf.constant(np.random.default_rng(0).uniform(1, 2, (1, 2, 2, 32)), tf.float32)
        first = np.zeros((1, 2, 2, 3), np.float32)
        first[..., 1] = self.maps
        shown = []
        head.first = lambda x, training: tf.constant(first)
        head.second = lambda x, training: shown.append(x)
        head.branches(features, tf.constant([1]))
        kept = np.float32([[1, 1], [0, 0]])[None, :, :, None]  # 1 and 0.7 exceed 0.6
        np.testing.assert_allclose(shown[0], features * kept)

    def test_both_branches_learn_and_the_map_is_the_higher_of_both(self):
        model = trained("acol")
        images, labels = batch()
        outputs = model(images, training=True)
        head, features = model.classifier.head, outputs["features"]
        first, second = head.branches(features, labels)
        expected = sum(
            ClassLoss().call(labels, tf.reduce_mean(maps, axis=(1, 2))) for maps in (first, second)
        )
        np.testing.assert_allclose(model.class_loss(labels, outputs), expected, rtol=1e-4)
        method = methods.get("acol")
        method.fit(model.classifier, lambda: [])
        found = method.localize(Forward(None, None, features, labels)).numpy()
        scaled = [acol.normalized(acol.class_maps(maps, labels)) for maps in (first, second)]
        np.testing.assert_allclose(found, np.maximum(*scaled), rtol=1e-5, atol=1e-6)


class TestSPG:
    def test_seeds_are_the_surest_cells(self):
        maps = np.float32([[0.0, 0.04, 0.06], [0.5, 0.7, 0.71], [0.9, 1.0, 0.3]])[None]
        found = spg.seeds(maps, 0.7, 0.05, 3)
        np.testing.assert_array_equal(found[0], [[0, 0, -1], [-1, -1, 1], [1, 1, -1]])

    def test_cells_between_do_not_count(self):
        logits = np.float32([[2.0, -1.0], [0.5, 9.0]])[None]
        known = np.float32([[1, 0], [-1, -1]])[None]
        expected = (np.log1p(np.exp(-2.0)) + np.log1p(np.exp(-1.0))) / 2
        np.testing.assert_allclose(spg.guidance_loss(logits, known), [expected], rtol=1e-5)
        assert float(spg.guidance_loss(logits, -np.ones_like(logits))[0]) == 0.0

    def test_a_map_that_guides_learns_nothing_from_it(self):
        maps = tf.Variable(np.random.default_rng(0).random((1, 4, 4)).astype(np.float32))
        logits = tf.Variable(tf.zeros((1, 4, 4)))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(spg.guidance_loss(logits, spg.seeds(maps, 0.7, 0.3, 4)))
        gradients = tape.gradient(loss, [maps, logits])
        assert gradients[0] is None and np.abs(gradients[1]).max() > 0


class TestDANet:
    def test_the_mean_cosine_of_pairs_by_hand(self):
        one, other, third = [[1, 0], [0, 0]], [[1, 1], [0, 0]], [[0, 0], [0, 2]]
        maps = np.float32([[one, other, third]])  # [1, 3, 2, 2]
        expected = (2 * np.sqrt(0.5)) / 6  # the first two in both orders; the third is apart
        np.testing.assert_allclose(danet.similarity(tf.constant(maps)), [expected], rtol=1e-5)

    def test_what_speaks_against_the_class_does_not_count(self):
        maps = np.float32([[[[1, -3]], [[1, 3]]]])
        expected = 1 / np.sqrt(10)
        np.testing.assert_allclose(danet.similarity(tf.constant(maps)), [expected], rtol=1e-5)

    def test_logits_are_the_mean_of_a_class_s_maps(self):
        head = tiny("danet").head
        features = np.random.default_rng(0).normal(size=(2, 4, 4, 32)).astype(np.float32)
        maps = head.maps(features).numpy()
        assert maps.shape == (2, 4, 4, 3, danet.NUM_MAPS)
        np.testing.assert_allclose(head(features), maps.mean(axis=(1, 2, 4)), rtol=1e-5, atol=1e-6)
        own = danet.class_maps(maps, [2, 0]).numpy()
        np.testing.assert_array_equal(own[1, 3], maps[1, :, :, 0, 3])

    def test_families_are_learned_beside_the_classes(self):
        families = ("Gull", "Tern", "Gull")
        model = danet.Divergent(tiny("danet"), families=families)
        model.compile("adam")
        images, _ = batch(count=3)
        labels = tf.constant([2, 1, 0])
        outputs = model(images, training=True)
        maps = outputs["family_maps"].numpy()
        assert maps.shape == (3, 4, 4, 2, danet.NUM_MAPS)
        found = model.class_loss(labels, outputs).numpy()
        of_families = np.array([0, 1, 0])  # in order of the alphabet
        logits = maps.mean(axis=(1, 2, 4))
        entropy = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(3), of_families]
        alike = danet.similarity(danet.class_maps(maps, of_families)).numpy()
        plain = danet.Divergent(tiny("danet"))
        plain.compile("adam")
        expected = plain.class_loss(labels, outputs).numpy() + entropy + danet.WEIGHT * alike
        np.testing.assert_allclose(found, expected, rtol=1e-4)

    @pytest.mark.parametrize("families", [None, ("A", "A", "A"), ("A", "B", "C")])
    def test_families_that_say_nothing_new_are_not_learned(self, families):
        model = danet.Divergent(tiny("danet"), families=families)
        assert model.family_maps is None
