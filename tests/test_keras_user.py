"""The package as somebody who knows Keras, and nothing of its own training loop, would use it."""

import csv

import keras
import numpy as np
import pytest

import gc_net
from gc_net.data.pipeline import training_batches
from gc_net.losses.terms import ObjectLoss
from gc_net.training.folds import CrossFittedGCNet, FoldClassifiers
from tests.data import sources
from tests.processes import run_python

SIZE, CLASSES, STEPS, EPOCHS = 32, 5, 3, 3


def parts(classifiers=1):
    keras.utils.set_random_seed(1)
    detector = gc_net.Detector("tiny", "rotated_ellipse", SIZE, head="position", weights=None)
    generator = gc_net.ModelGenerator("rotated_ellipse", SIZE)
    judges = [gc_net.Classifier("tiny", CLASSES, SIZE, weights=None) for _ in range(classifiers)]
    return detector, generator, judges


def build():
    detector, generator, (classifier,) = parts()
    return gc_net.GCNet(detector, generator, classifier)


def batches(split, **options):
    return training_batches(split, image_size=SIZE, batch_size=4, **options)


@pytest.fixture(scope="module")
def split():
    return sources.drawn_split(4 * STEPS)[0]


@pytest.fixture(scope="module")
def fitted(split, tmp_path_factory):
    """A model after `fit` with validation and callbacks, its history, batches and folder."""
    folder = tmp_path_factory.mktemp("fit")
    model = build()
    model.compile(gc_net.optimizers.Adam(1e-3), run_eagerly=True)
    seen, train_step = [], model.train_step

    def watched(data):
        seen.append([np.array(part) for part in data])
        return train_step(data)

    model.train_step = watched
    history = model.fit(
        batches(split, seed=7),
        epochs=EPOCHS,
        validation_data=batches(split, augment=False, drop_remainder=False),
        callbacks=[
            keras.callbacks.ModelCheckpoint(folder / "best.keras", "val_loss", save_best_only=True),
            keras.callbacks.EarlyStopping("val_loss", patience=EPOCHS),
            keras.callbacks.CSVLogger(folder / "log.csv"),
        ],
        verbose=0,
    )
    return model, history.history, seen, folder


def test_every_epoch_of_fit_shows_other_crops_in_the_order_of_the_own_loop(split, fitted):
    seen = fitted[2]
    assert len(seen) == EPOCHS * STEPS
    for epoch in range(EPOCHS):
        expected = list(batches(split, seed=7, epoch=epoch).as_numpy_iterator())
        for found, wanted in zip(seen[epoch * STEPS :][:STEPS], expected, strict=True):
            for part, wanted_part in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(part, wanted_part)
    first, second = seen[0][0], seen[STEPS][0]
    assert not np.array_equal(first, second)


def test_validation_and_callbacks_see_every_epoch(fitted):
    history, folder = fitted[1], fitted[3]
    with open(folder / "log.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == EPOCHS
    for name in ("loss", "val_loss", "val_object_accuracy", "val_mean_cx"):
        assert [float(row[name]) for row in rows] == pytest.approx(history[name], rel=1e-5)
    assert len(set(history["loss"])) == EPOCHS


def test_validation_without_augmentation_gives_the_same_twice(split, fitted):
    model, held_out = fitted[0], batches(split, augment=False, drop_remainder=False)
    first, second = (model.evaluate(held_out, verbose=0, return_dict=True) for _ in range(2))
    # Batches are made of other images, and the spread is that within a batch.
    for name in first:
        if not name.startswith("spread"):
            assert first[name] == pytest.approx(second[name], rel=1e-3, abs=1e-5), name


def test_a_checkpoint_is_loaded_in_another_process_after_importing_gc_net_alone(split, fitted):
    folder = fitted[3]
    images, _ = next(iter(batches(split)))
    np.save(folder / "images.npy", images)
    code = (
        "import sys, gc_net, keras, numpy as np; "
        "model = keras.saving.load_model(sys.argv[1]); "
        "np.save(sys.argv[2], model.predict(np.load(sys.argv[3]), verbose=0)['boxes'])"
    )
    files = [folder / name for name in ("best.keras", "boxes.npy", "images.npy")]
    done = run_python(code, *files)
    assert done.returncode == 0, done.stderr
    restored = keras.saving.load_model(folder / "best.keras")
    expected = restored.predict(images.numpy(), verbose=0)["boxes"]
    np.testing.assert_allclose(np.load(folder / "boxes.npy"), expected, atol=1e-5)


def test_a_classifier_is_fitted_on_batches_with_the_usual_arguments(split):
    keras.utils.set_random_seed(1)
    classifier = gc_net.Classifier("tiny", CLASSES, SIZE, weights=None)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    classifier.compile(keras.optimizers.Adam(1e-2), loss, metrics=["accuracy"])
    held_out = batches(split, augment=False)
    history = classifier.fit(batches(split), epochs=4, validation_data=held_out, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    assert len(history["val_accuracy"]) == 4


def test_the_names_of_keras_mean_what_they_mean_elsewhere():
    # In the Keras world `from_preset` loads trained weights. The presets here are settings.
    for model in (gc_net.GCNet, gc_net.Detector, gc_net.Classifier):
        assert not hasattr(model, "from_preset")


@pytest.fixture(scope="module")
def weighted(split):
    images, labels = next(iter(batches(split)))
    return images.numpy(), labels.numpy(), np.array([0.0, 1.0, 2.0, 0.5], "float32")


def object_losses(model, classifier, images, labels):
    """Return the object loss of each image, by hand."""
    _, objects, _ = gc_net.GCNet(model.detector, model.generator, classifier).mask(
        images, model.detector(images)
    )
    logits = classifier.from_normalized(objects)
    return [
        float(ObjectLoss()(labels[i : i + 1], {"object": logits[i : i + 1]}))
        for i in range(len(labels))
    ]


def test_sample_weights_weigh_images(weighted):
    images, labels, weights = weighted
    model = build()
    model.compile("adam")
    logs = model.evaluate(
        images, labels, sample_weight=weights, batch_size=4, verbose=0, return_dict=True
    )
    losses = object_losses(model, model.classifier, images, labels)
    assert logs["object_loss"] == pytest.approx(np.mean(weights * losses), rel=1e-4)


@pytest.mark.parametrize("fold", [0, 1])
def test_sample_weights_of_a_cross_fitted_model_are_weights_and_no_folds(weighted, fold):
    images, labels, weights = weighted
    detector, generator, judges = parts(classifiers=2)
    model = CrossFittedGCNet(detector, generator, FoldClassifiers(judges))
    model.compile("adam")
    targets = {"labels": labels, "folds": np.full(len(labels), fold, "int32")}
    logs = model.evaluate(
        images, targets, sample_weight=weights, batch_size=4, verbose=0, return_dict=True
    )
    own, other = (
        object_losses(model, judges[number], images, labels) for number in (fold, 1 - fold)
    )
    assert logs["object_loss"] == pytest.approx(np.mean(weights * own), rel=1e-4)
    assert logs["object_loss"] != pytest.approx(np.mean(weights * other), rel=1e-4)
    with pytest.raises(ValueError, match=r"a dict of `labels` and `folds`"):
        model.evaluate(images, labels, sample_weight=weights, verbose=0)
