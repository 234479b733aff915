import keras
import numpy as np
import pytest
import tensorflow as tf

import gc_net
from gc_net.generators.learned import LearnedGenerator
from gc_net.generators.model import ModelGenerator
from gc_net.losses import LOSS_TERMS
from gc_net.losses.terms import BackgroundLoss, LossTerm, ObjectLoss
from gc_net.optimizers import REFERENCE_MULTIPLIERS, SGD, Adam
from gc_net.training.devices import make_strategy
from tests.models import localizer_of

SIZE, CLASSES, BATCH = 32, 4, 8


def data(num_images=BATCH):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (num_images, SIZE, SIZE, 3)).astype("uint8")
    return images, rng.integers(0, CLASSES, num_images).astype("int32")


def build(shape="rotated_ellipse", generator="model", head="native", **kwargs):
    keras.utils.set_random_seed(1)
    build_generator = {
        "model": lambda: ModelGenerator(shape, SIZE),
        "learned": lambda: LearnedGenerator(shape, SIZE, network="implicit"),
    }[generator]
    return gc_net.GCNet(
        gc_net.Detector("tiny", shape, SIZE, head=head, weights=None),
        build_generator(),
        gc_net.Classifier("tiny", CLASSES, SIZE, weights=None),
        **kwargs,
    )


def values(weights):
    return [weight.numpy().copy() for weight in weights]


every_generator = pytest.mark.parametrize("generator", ["model", "learned"])


@every_generator
@pytest.mark.parametrize("shape", ["rectangle", "rotated_ellipse"])
def test_only_the_detector_and_epsilon_are_trained(shape, generator):
    model = build(shape, generator)
    model.compile(optimizer=Adam(1e-2))
    detector, classifier = values(model.detector.weights), values(model.classifier.weights)
    drawn = values(model.generator.weights)
    model.fit(*data(), batch_size=4, epochs=2, verbose=0)
    for before, weight in zip(classifier, model.classifier.weights, strict=True):
        np.testing.assert_array_equal(weight, before)
    changed = [
        not np.array_equal(a, b) for a, b in zip(detector, model.detector.weights, strict=True)
    ]
    assert all(changed)
    same = [np.array_equal(a, b) for a, b in zip(drawn, model.generator.weights, strict=True)]
    assert all(same) is not model.generator.learns_with_detector


@every_generator
def test_training_lowers_the_loss(generator):
    model = build(generator=generator)
    model.compile(optimizer=Adam(3e-3))
    history = model.fit(*data(), batch_size=BATCH, epochs=15, verbose=0).history["loss"]
    assert history[-1] < history[0]


def test_losses_are_the_weighted_terms_of_the_masked_images():
    model = build("rectangle", loss_weights={"area": 0.7, "object": 1.3, "background": 0.4})
    model.compile(optimizer=Adam(1e-3))
    images, labels = data()
    logs = model.evaluate(images, labels, batch_size=BATCH, verbose=0, return_dict=True)
    # By hand, with the exact steps of the paper.
    coefficients = model.predict(images, verbose=0)["coefficients"]
    masks = np.asarray(model.generator(coefficients))
    normalized = (images.astype("float32") - 127) / 128
    classify = model.classifier.from_normalized
    area = (coefficients[:, 2] * coefficients[:, 3]).mean()
    objects = float(ObjectLoss()(labels, {"object": classify(normalized * masks)}))
    background = float(BackgroundLoss()(labels, {"background": classify(normalized * (1 - masks))}))
    assert logs["area_loss"] == pytest.approx(area, rel=1e-4)
    assert logs["object_loss"] == pytest.approx(objects, rel=1e-4)
    assert logs["background_loss"] == pytest.approx(background, rel=1e-4)
    expected = 0.7 * area + 1.3 * objects + 0.4 * background
    assert logs["loss"] == pytest.approx(expected, rel=1e-4)


def test_logs_watch_accuracies_coefficients_and_epsilon():
    model = build()
    model.compile(optimizer=Adam(0.0))
    images, labels = data()
    logs = model.evaluate(images, labels, batch_size=BATCH, verbose=0, return_dict=True)
    coefficients = model.predict(images, verbose=0)["coefficients"]
    np.testing.assert_allclose(logs["mean_cx"], coefficients[:, 0].mean(), rtol=1e-4)
    np.testing.assert_allclose(logs["spread_angle"], coefficients[:, 4].std(), rtol=1e-3, atol=1e-6)
    assert logs["epsilon"] == pytest.approx(0.1)
    outputs = model.supervise(images)
    correct = (np.argmax(outputs["background"], -1) == labels).mean()
    assert logs["background_accuracy"] == pytest.approx(correct)


def test_masked_pixels_take_the_mean_colour():
    model = build("rectangle")
    images, _ = data(1)
    coefficients = np.array([[0.5, 0.5, 0.5, 0.5]], "float32")
    masks, objects, backgrounds = model.mask(images, coefficients)
    normalized = np.asarray(model.classifier.normalize(images))
    np.testing.assert_allclose(objects + backgrounds, normalized, atol=1e-6)
    np.testing.assert_allclose(objects, normalized * np.asarray(masks), atol=1e-6)
    # The normalizer's zero is grey 127.
    np.testing.assert_allclose(
        model.classifier.normalize(np.full((1, 1, 1, 3), 127.0)), 0, atol=1e-6
    )


def test_fit_traces_a_step_once(monkeypatch):
    traced = []
    step = gc_net.GCNet.train_step
    monkeypatch.setattr(
        gc_net.GCNet, "train_step", lambda model, batch: traced.append(1) or step(model, batch)
    )
    model = build()
    model.compile(optimizer=Adam(1e-3))
    model.fit(*data(), batch_size=4, epochs=2, verbose=0)
    assert len(traced) == 1


def test_no_gradient_is_computed_for_frozen_weights():
    model = build(head="position")
    model.compile(optimizer=Adam(1e-3))
    model.optimizer.build(model.trainable_variables)
    step = tf.function(model.train_step, jit_compile=False).get_concrete_function(data())
    # After pruning, each convolution of the detector has one gradient for its kernel: three of
    # the trunk and one of the head. The classifier's three have none.
    used = {step.graph.get_operation_by_name(name) for name in reachable(step)}
    assert sum(operation.type == "Conv2DBackpropFilter" for operation in used) == 4


def reachable(function):
    """Return the names of the operations that a function's outputs or effects depend on."""
    stack = [tensor.op for tensor in function.outputs] + list(function.graph.control_outputs)
    names = set()
    while stack:
        operation = stack.pop()
        if operation.name not in names:
            names.add(operation.name)
            stack += [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)
    return names


def test_reference_mode_updates_batch_statistics_but_no_frozen_kernel():
    model = build(frozen_mode="training")
    model.compile(optimizer=Adam(1e-3))
    before = {weight.path: weight.numpy().copy() for weight in model.classifier.weights}
    model.fit(*data(), batch_size=4, epochs=1, verbose=0)
    for weight in model.classifier.weights:
        moved = not np.array_equal(weight, before[weight.path])
        assert moved is ("moving" in weight.path or "seed" in weight.path)


def test_a_term_of_weight_zero_runs_no_network_and_is_logged_where_it_is_free():
    classified = []

    def logs(**loss_weights):
        model = build(loss_weights=loss_weights)
        model.classifier.from_normalized = lambda images, **options: (
            classified.append(len(images))
            or type(model.classifier).from_normalized(model.classifier, images, **options)
        )
        model.compile(optimizer=Adam(1e-3), run_eagerly=True)
        found = model.fit(*data(), batch_size=BATCH, epochs=1, verbose=0).history
        assert found["loss"][0] == pytest.approx(
            sum(loss_weights[name] * found.get(f"{name}_loss", [0])[0] for name in loss_weights),
            rel=1e-4,
        )
        return set(found)

    whole = logs(area=1.0, object=1.0, background=1.0)
    assert {"object_accuracy", "background_accuracy"} <= whole and classified == [2 * BATCH]
    some = logs(area=0.0, object=1.0, background=0.0)
    assert whole - some == {"background_accuracy", "background_loss"}
    assert classified[1:] == [BATCH]
    assert logs(area=1.0, object=0.0) == some - {"object_accuracy", "object_loss"}
    assert len(classified) == 2


def test_loss_weights_that_mean_nothing_are_refused():
    with pytest.raises(ValueError, match=r"Unknown loss term 'size'.*area, object, background"):
        build(loss_weights={"size": 1.0})
    with pytest.raises(ValueError, match="nothing would be learned"):
        build(loss_weights={"area": 0.0})


def test_a_term_of_ones_own_is_one_class_and_one_line():
    class Elongation(LossTerm):
        needs = ("coefficients", "masks")

        def call(self, labels, outputs):
            extents = outputs["coefficients"][:, 2:4]
            return keras.ops.max(extents, axis=-1) - keras.ops.min(extents, axis=-1)

    with LOSS_TERMS.register("elongation", Elongation):
        model = build(loss_weights={"area": 1.0, "elongation": 3.0})
        model.compile(optimizer=Adam(1e-3))
        logs = model.evaluate(*data(), batch_size=BATCH, verbose=0, return_dict=True)
        coefficients = model.predict(data()[0], verbose=0)["coefficients"]
        expected = np.abs(coefficients[:, 2] - coefficients[:, 3]).mean()
        assert logs["elongation_loss"] == pytest.approx(expected, rel=1e-4)
        assert logs["loss"] == pytest.approx(logs["area_loss"] + 3 * expected, rel=1e-4)


def test_compile_refuses_what_it_would_ignore():
    for unknown in ({"loss": "mse"}, {"metrics": ["accuracy"]}, {"learning_rate": 1e-3}):
        with pytest.raises(TypeError, match=f"takes no {next(iter(unknown))}.*loss_weights"):
            build().compile(optimizer=Adam(1e-3), **unknown)


@pytest.mark.parametrize("frozen_mode", ["inference", "training"])
def test_the_parts_keep_their_trainable(frozen_mode):
    for trainable in (True, False):
        model = build(generator="learned")
        parts = model.detector, model.generator, model.classifier
        for part in parts[1:]:
            part.trainable = trainable
        model = gc_net.GCNet(*parts, frozen_mode=frozen_mode)
        assert [part.trainable for part in parts] == [True, trainable, trainable]
        assert len(model.trainable_weights) == len(model.detector.trainable_weights)


@pytest.mark.parametrize(
    ("shape", "generator", "head"),
    [("rectangle", "model", "position"), ("rotated_ellipse", "learned", "native")],
)
def test_keras_file_round_trips_everything(shape, generator, head, tmp_path):
    model = build(shape, generator, head, loss_weights={"area": 2.0, "object": 1.0})
    model.compile(optimizer=Adam(1e-3, multipliers=REFERENCE_MULTIPLIERS))
    images, labels = data()
    model.fit(images, labels, batch_size=BATCH, epochs=1, verbose=0)
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    for name, value in model.predict(images, verbose=0).items():
        np.testing.assert_array_equal(restored.predict(images, verbose=0)[name], value)
    assert restored.loss_weights == {"area": 2.0, "object": 1.0}
    for a, b in zip(model.optimizer.variables, restored.optimizer.variables, strict=True):
        np.testing.assert_array_equal(a, b)
    # Both go on to the same place.
    for each in (model, restored):
        each.fit(images, labels, batch_size=BATCH, epochs=1, shuffle=False, verbose=0)
    if head == "position":  # the native head's dropout draws other units
        for a, b in zip(model.detector.weights, restored.detector.weights, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)


def test_one_step_on_two_replicas_equals_one_on_one():
    images, labels = data()

    def trained(strategy):
        with strategy.scope():
            model = build(head="position")
            # Unlike Adam's, this step shows the gradient's scale; counted twice it would double.
            model.compile(optimizer=SGD(1e-2, multipliers=REFERENCE_MULTIPLIERS))
        # Batch statistics are a replica's own, so compare with them frozen.
        for layer in model.detector._flatten_layers():
            if isinstance(layer, keras.layers.BatchNormalization):
                layer.trainable = False
        before = values(model.trainable_variables)
        dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(BATCH)
        loss = model.fit(dataset, epochs=1, verbose=0).history["loss"]
        after = values(model.trainable_variables)
        return [b - a for a, b in zip(before, after, strict=True)], loss

    two = make_strategy("auto")
    assert two.num_replicas_in_sync == 2
    one_step, one_loss = trained(tf.distribute.get_strategy())
    two_step, two_loss = trained(two)
    np.testing.assert_allclose(two_loss, one_loss, rtol=1e-4)
    assert max(np.abs(step).max() for step in one_step) > 1e-3
    for a, b in zip(one_step, two_step, strict=True):
        np.testing.assert_allclose(a, b, rtol=0.02, atol=1e-6)


def test_mixed_bfloat16_trains_keeps_coefficients_in_float32_and_is_saved(tmp_path):
    policy = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy("mixed_bfloat16")
    try:
        model = build()
        model.compile(optimizer=Adam(1e-3))
        images, labels = data()
        history = model.fit(images, labels, batch_size=4, epochs=1, verbose=0).history
        outputs = model.supervise(images)
        localizer_of(model, ["a", "b", "c", "d"]).save(tmp_path)
    finally:
        keras.mixed_precision.set_dtype_policy(policy)
    assert np.isfinite(history["loss"]).all()
    assert model.detector.trunk.get_layer("conv1").compute_dtype == "bfloat16"
    assert {outputs[name].dtype for name in outputs} == {tf.float32}
    for precision, expected in ((None, "bfloat16"), ("float32", "float32")):
        restored = gc_net.Localizer.load(tmp_path, precision)
        for network in (restored.detector, restored.classifier):
            assert network.trunk.get_layer("conv1").compute_dtype == expected
    # What is loaded to be used, and not trained on, computes in full precision.
    assert gc_net.load(tmp_path).detector.precision == "float32"
    assert keras.mixed_precision.dtype_policy().name == "float32"


def test_parts_that_do_not_fit_are_refused():
    detector = gc_net.Detector("tiny", "rectangle", SIZE, weights=None)
    classifier = gc_net.Classifier("tiny", CLASSES, SIZE, weights=None)
    with pytest.raises(
        ValueError, match="places a rectangle, the generator draws a rotated_ellipse"
    ):
        gc_net.GCNet(detector, ModelGenerator("rotated_ellipse", SIZE), classifier)
    with pytest.raises(ValueError, match="agree on the image size"):
        gc_net.GCNet(detector, ModelGenerator("rectangle", 2 * SIZE), classifier)
    with pytest.raises(ValueError, match="frozen_mode"):
        gc_net.GCNet(detector, ModelGenerator("rectangle", SIZE), classifier, frozen_mode="eval")
