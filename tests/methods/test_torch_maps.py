"""Heat maps equal those of an independent PyTorch version: same images, same weights, same maps.

Needs the extra `benchmark`. The network is the one that the benchmarks compare with. The methods
are written here once more, after their papers, with PyTorch's own gradients.
"""

import cv2
import numpy as np
import pytest
import tensorflow as tf

import gc_net
from gc_net import methods
from gc_net.datasets import get as get_dataset
from gc_net.methods.base import Forward
from gc_net.teachers.descriptors import Transform
from gc_net.weights import assign_weights

torch = pytest.importorskip("torch", reason="needs the extra benchmark")

SIZE, CLASSES = 96, 6
LABELS = [3, 0, 5, 3]
# What trains its own classifier, but localizes by CAM of its pooled head.
CAMS = ("cam", "gmp", "has", "cutmix", "adl", "spg")


@pytest.fixture(scope="module")
def images():
    drawn = get_dataset("creatures", num_train=len(LABELS), num_test=1, image_size=SIZE)
    split = drawn.split("train")
    read = [split.read(index) for index in range(len(LABELS))]
    return np.stack([cv2.resize(image, (SIZE, SIZE)) for image in read])  # uint8 [B, S, S, 3]


@pytest.fixture(scope="module")
def theirs():
    from benchmarks.torch_networks import EfficientNetLite0

    torch.manual_seed(0)
    network = EfficientNetLite0(CLASSES).eval()
    for module in network.modules():  # statistics that a wrong normalization would not survive
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
            module.weight.data.uniform_(0.8, 1.6)
            module.bias.data.normal_(0, 0.3)
    return network


def ours(theirs, head):
    classifier = gc_net.Classifier("efficientnet_lite0", CLASSES, SIZE, head=head, weights=None)
    state = {name: value.numpy() for name, value in theirs.state_dict().items()}
    arrays = classifier.backbone.torch_weights(state)
    assign_weights(classifier.trunk, arrays, prefix="trunk")
    if head in ("native", "max"):
        assign_weights(classifier.head, arrays, prefix="head")
    return classifier


def our_maps(name, classifier, images):
    method = methods.get(name)
    method.fit(classifier, lambda: [images])
    normalized = tf.convert_to_tensor(classifier.normalize(images))
    features = classifier.trunk(normalized)
    forward = Forward(normalized, features, features, tf.constant(LABELS), tf.constant(images))
    return tf.function(method.localize)(forward).numpy()


def their_features(theirs, images):
    """Return what the network pools, [B, C, h, w], and its input, which asks for gradients."""
    inputs = (torch.tensor(images, dtype=torch.float32).permute(0, 3, 1, 2) - 127.0) / 128.0
    inputs.requires_grad_()
    x = theirs.relu(theirs._bn0(theirs._conv_stem(inputs)))
    for block in theirs._blocks:
        x = block(x)
    return theirs.relu(theirs._bn1(theirs._conv_head(x))), inputs


def score_gradients(theirs, images, to_inputs=False):
    features, inputs = their_features(theirs, images)
    if not to_inputs:
        features = features.detach().requires_grad_()
    scores = theirs._fc(features.mean(dim=(2, 3)))
    scores[torch.arange(len(LABELS)), LABELS].sum().backward()
    return (inputs if to_inputs else features), (inputs if to_inputs else features).grad


def close(found, expected, tolerance=2e-4):
    scale = np.abs(expected).max()
    assert scale > 0
    np.testing.assert_allclose(found / scale, expected / scale, atol=tolerance)


@pytest.mark.parametrize("name", CAMS)
def test_class_activation_maps(name, theirs, images):
    head = methods.get(name).head
    features, _ = their_features(theirs, images)
    weights = theirs._fc.weight[LABELS]  # [B, C]
    expected = (features * weights[:, :, None, None]).sum(dim=1).detach().numpy()
    close(our_maps(name, ours(theirs, head), images), expected)


def test_grad_cam(theirs, images):
    features, gradients = score_gradients(theirs, images)
    weights = gradients.mean(dim=(2, 3), keepdim=True)
    expected = torch.relu((weights * features).sum(dim=1)).detach().numpy()
    close(our_maps("grad_cam", ours(theirs, "native"), images), expected)


def test_grad_cam_pp(theirs, images):
    features, gradients = score_gradients(theirs, images)
    square, cube = gradients.pow(2), gradients.pow(3)
    below = 2 * square + features.sum(dim=(2, 3), keepdim=True) * cube
    alpha = torch.where(below != 0, square / torch.where(below != 0, below, 1.0), 0.0)
    weights = (alpha * torch.relu(gradients)).sum(dim=(2, 3), keepdim=True)
    expected = torch.relu((weights * features).sum(dim=1)).detach().numpy()
    close(our_maps("grad_cam_pp", ours(theirs, "native"), images), expected)


def test_layer_cam(theirs, images):
    features, gradients = score_gradients(theirs, images)
    expected = torch.relu((torch.relu(gradients) * features).sum(dim=1)).detach().numpy()
    close(our_maps("layer_cam", ours(theirs, "native"), images), expected)


def test_gradient_saliency(theirs, images):
    _, gradients = score_gradients(theirs, images, to_inputs=True)
    strongest = gradients.abs().amax(dim=1).numpy().astype(np.float32)
    # The same Gaussian: a deviation of a 32nd of the image, up to three of them, mirrored borders.
    deviation = SIZE / 32
    expected = np.stack(
        [
            cv2.GaussianBlur(
                single, (6 * int(deviation) + 1,) * 2, deviation, borderType=cv2.BORDER_REFLECT
            )
            for single in strongest
        ]
    )
    # Rounding takes some units of the early layers over the kinks of their ReLU6.
    close(our_maps("saliency", ours(theirs, "native"), images), expected, tolerance=3e-3)


def convolution(layer):
    """Return a Keras convolution of stride 1, or a dense layer of one, in PyTorch."""
    kernel = torch.tensor(layer.kernel.numpy()).permute(3, 2, 0, 1)
    module = torch.nn.Conv2d(kernel.shape[1], kernel.shape[0], kernel.shape[2], padding="same")
    module.weight.data, module.bias.data = kernel, torch.tensor(layer.bias.numpy())
    return module


def scaled(maps):
    low, high = maps.amin(dim=(1, 2), keepdim=True), maps.amax(dim=(1, 2), keepdim=True)
    return (maps - low) / (high - low)


def test_acol(theirs, images):
    classifier = ours(theirs, "acol")

    def branch(network):
        layers = [convolution(network.get_layer(name)) for name in ("conv1", "conv2", "outputs")]
        relu = torch.nn.ReLU()
        return torch.nn.Sequential(layers[0], relu, layers[1], relu, layers[2])

    features, _ = their_features(theirs, images)
    rows = torch.arange(len(LABELS))
    first = scaled(branch(classifier.head.first)(features)[rows, LABELS])
    erased = features.masked_fill((first > 0.6)[:, None], 0.0)
    assert 0 < (first > 0.6).float().mean() < 1
    second = scaled(branch(classifier.head.second)(erased)[rows, LABELS])
    expected = torch.maximum(first, second).detach().numpy()
    close(our_maps("acol", classifier, images), expected)


def test_danet(theirs, images):
    classifier = ours(theirs, "danet")
    maps = convolution(classifier.head.maps.get_layer("outputs"))(their_features(theirs, images)[0])
    batch, _, height, width = maps.shape
    each = maps.reshape(batch, CLASSES, -1, height, width)  # [B, C, K, h, w]
    expected = each[torch.arange(batch), LABELS].mean(dim=1).detach().numpy()
    close(our_maps("danet", classifier, images), expected)


def test_deep_descriptor_transforming(theirs, images):
    features, _ = their_features(theirs, images)
    flat = features.detach().permute(0, 2, 3, 1).reshape(-1, features.shape[1])
    centred = flat - flat.mean(dim=0)
    direction = torch.linalg.svd(centred, full_matrices=False)[2][0]
    expected = (centred @ direction).reshape(len(images), *features.shape[2:]).numpy()
    transform = Transform(lambda batch: batch)
    transform.fit([features.detach().permute(0, 2, 3, 1).numpy()])
    found = np.asarray(transform(tf.constant(features.detach().permute(0, 2, 3, 1).numpy())))
    # A principal component has no sign of its own.
    close(found * np.sign((found * expected).sum()), expected)
