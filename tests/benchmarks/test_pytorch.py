"""The step in PyTorch is the same step: same weights, same images, same loss and gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from benchmarks import pytorch
from benchmarks.models import untrained_model
from benchmarks.step import noise
from gc_net.weights import assign_weights

torch = pytest.importorskip("torch", reason="needs the extra benchmark")


def transfer(theirs, ours):
    state = {name: value.numpy() for name, value in theirs.state_dict().items()}
    arrays = ours.backbone.torch_weights(state)
    assign_weights(ours.trunk, arrays, prefix="trunk")
    assign_weights(ours.head, arrays, prefix="head")


@pytest.mark.parametrize("backbone", ["efficientnet_lite0", "vgg16"])
def test_both_give_one_loss_and_one_gradient(backbone):
    from benchmarks.torch_step import TorchGCNet

    torch.manual_seed(0)
    theirs = TorchGCNet(backbone, image_size=32, num_classes=7).eval()
    ours = untrained_model(backbone, image_size=32, num_classes=7)
    transfer(theirs.detector, ours.detector)
    transfer(theirs.classifier, ours.classifier)
    images, labels = noise(ours, batch_size=3)

    loss = theirs(
        torch.tensor(images.numpy(), dtype=torch.float32).permute(0, 3, 1, 2),
        torch.tensor(labels.numpy(), dtype=torch.int64),
    )
    loss.backward()
    kernel = ours.detector.trunk.trainable_variables[0]
    with tf.GradientTape() as tape:
        outputs = ours.supervise(images, training=False)
        our_loss = ours._total(ours._loss_terms(labels, outputs))
    gradients = tape.gradient(our_loss, [kernel.value, ours.generator.sharpness.value])

    assert float(our_loss) == pytest.approx(loss.item(), rel=1e-4)
    expected = next(theirs.detector.parameters()).grad.numpy().transpose(2, 3, 1, 0)
    scale = np.abs(expected).max()
    assert scale > 0
    np.testing.assert_allclose(gradients[0], expected, atol=2e-3 * scale)
    np.testing.assert_allclose(gradients[1], theirs.sharpness.grad.item(), rtol=1e-2)
    keras.backend.clear_session()


def test_a_step_changes_the_detector_and_nothing_else():
    from benchmarks.torch_step import TorchGCNet, training_step

    model = TorchGCNet("efficientnet_lite0", image_size=32, num_classes=3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3))
    training_step(model, images, [0, 2], torch.channels_last)()
    changed = {name for name, value in model.state_dict().items() if not value.equal(before[name])}
    assert "detector._fc.weight" in changed and "sharpness" in changed
    assert not {name for name in changed if name.startswith("classifier.")}


def test_all_are_timed():
    timings = pytorch.measure("efficientnet_lite0", 32, batch_size=2, rounds=1, num_classes=3)
    assert set(timings.wall) == {pytorch.OURS, *pytorch.THEIRS}
    assert all(seconds > 0 for values in timings.wall.values() for seconds in values)
