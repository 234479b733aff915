"""Write `torch_fixtures.npz`: what PyTorch makes of weights and images given by formula.

The networks below are written from torchvision's published architecture, apart from the Keras ones,
so that the tests compare two implementations. Only this script needs PyTorch (2.13 was used):

    python -m tests.backbones.make_torch_fixtures efficientnet-lite0-57934424.pth \\
        efficientnet-lite1-77cc7160.pth efficientnet-lite2-9656183e.pth
"""

import pathlib
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tests.backbones import formula

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
FIXTURES = pathlib.Path(__file__).with_name("torch_fixtures.npz")


class ConvBNReLU(nn.Module):
    def __init__(self, channels, filters, size, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, size, stride, padding=size // 2, bias=False)
        self.bn = nn.BatchNorm2d(filters, eps=0.001)

    def forward(self, x):
        return torch.relu(self.bn(self.conv(x)))


class Inception(nn.Module):
    def __init__(self, channels, n1, n3r, n3, n5r, n5, pooled):
        super().__init__()
        self.branch1 = ConvBNReLU(channels, n1, 1)
        self.branch2 = nn.Sequential(ConvBNReLU(channels, n3r, 1), ConvBNReLU(n3r, n3, 3))
        self.branch3 = nn.Sequential(ConvBNReLU(channels, n5r, 1), ConvBNReLU(n5r, n5, 3))
        self.branch4 = nn.Sequential(
            nn.MaxPool2d(3, stride=1, padding=1, ceil_mode=True), ConvBNReLU(channels, pooled, 1)
        )

    def forward(self, x):
        branches = (self.branch1, self.branch2, self.branch3, self.branch4)
        return torch.cat([branch(x) for branch in branches], dim=1)


class GoogLeNet(nn.Module):
    def __init__(self, num_outputs):
        super().__init__()
        self.conv1 = ConvBNReLU(3, 64, 7, stride=2)
        self.conv2 = ConvBNReLU(64, 64, 1)
        self.conv3 = ConvBNReLU(64, 192, 3)
        self.inception3a = Inception(192, 64, 96, 128, 16, 32, 32)
        self.inception3b = Inception(256, 128, 128, 192, 32, 96, 64)
        self.inception4a = Inception(480, 192, 96, 208, 16, 48, 64)
        self.inception4b = Inception(512, 160, 112, 224, 24, 64, 64)
        self.inception4c = Inception(512, 128, 128, 256, 24, 64, 64)
        self.inception4d = Inception(512, 112, 144, 288, 32, 64, 64)
        self.inception4e = Inception(528, 256, 160, 320, 32, 128, 128)
        self.inception5a = Inception(832, 256, 160, 320, 32, 128, 128)
        self.inception5b = Inception(832, 384, 192, 384, 48, 128, 128)
        self.fc = nn.Linear(1024, num_outputs)

    def features(self, x):
        x = x * STD / 0.5 + (MEAN - 0.5) / 0.5  # torchvision's transform_input
        x = functional.max_pool2d(self.conv1(x), 3, 2, ceil_mode=True)
        x = functional.max_pool2d(self.conv3(self.conv2(x)), 3, 2, ceil_mode=True)
        x = functional.max_pool2d(self.inception3b(self.inception3a(x)), 3, 2, ceil_mode=True)
        x = self.inception4c(self.inception4b(self.inception4a(x)))
        x = functional.max_pool2d(self.inception4e(self.inception4d(x)), 2, 2, ceil_mode=True)
        return self.inception5b(self.inception5a(x))

    def forward(self, x):
        return self.fc(functional.adaptive_avg_pool2d(self.features(x), 1).flatten(1))


class VGG16(nn.Module):
    def __init__(self, num_outputs):
        super().__init__()
        modules, channels = [], 3
        for filters in (
            64,
            64,
            0,
            128,
            128,
            0,
            256,
            256,
            256,
            0,
            512,
            512,
            512,
            0,
            512,
            512,
            512,
            0,
        ):
            if filters:
                modules += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU()]
                channels = filters
            else:
                modules.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*modules)
        self.avgpool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            *(nn.Linear(25088, 4096), nn.ReLU(), nn.Dropout()),
            *(nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout()),
            nn.Linear(4096, num_outputs),
        )

    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


# Blocks at which the map is halved, of Lite0 and of the deeper ones, by TensorFlow's own builder.
LITE0_STRIDES = (1, 3, 5, 11)
DEEPER_STRIDES = (1, 4, 7, 15)


def lite(state, x, strides):
    """EfficientNet-Lite as a function of its published state dict."""

    def conv(x, name, stride=1):
        weight = state[f"{name}.weight"]
        size = weight.shape[-1]
        # TensorFlow's "same": the output is ceil(n / stride), the odd pixel is added at the end.
        total = max((-(-x.shape[-1] // stride) - 1) * stride + size - x.shape[-1], 0)
        before, after = total // 2, total - total // 2
        x = functional.pad(x, (before, after, before, after))
        groups = x.shape[1] if weight.shape[1] == 1 else 1
        return functional.conv2d(x, weight, stride=stride, groups=groups)

    def bn(x, name):
        keys = ("running_mean", "running_var", "weight", "bias")
        return functional.batch_norm(x, *(state[f"{name}.{key}"] for key in keys), eps=1e-3)

    x = functional.relu6(bn(conv(x, "_conv_stem", 2), "_bn0"))
    blocks = {int(key.split(".")[1]) for key in state if key.startswith("_blocks.")}
    for index in sorted(blocks):
        name, inputs = f"_blocks.{index}.", x
        if f"{name}_expand_conv.weight" in state:
            x = functional.relu6(bn(conv(x, f"{name}_expand_conv"), f"{name}_bn0"))
        stride = 2 if index in strides else 1
        x = functional.relu6(bn(conv(x, f"{name}_depthwise_conv", stride), f"{name}_bn1"))
        x = bn(conv(x, f"{name}_project_conv"), f"{name}_bn2")
        if x.shape == inputs.shape:
            x = x + inputs
    x = functional.relu6(bn(conv(x, "_conv_head"), "_bn1"))
    return x.mean((2, 3)) @ state["_fc.weight"].T + state["_fc.bias"]


def images(size):
    return torch.from_numpy(formula.image(size)).permute(0, 3, 1, 2)


def by_formula(model):
    state, shapes = filled(model.state_dict())
    model.load_state_dict(state, strict=False)
    return model.eval(), shapes


def filled(state):
    """Return a state dict with values by formula, and the shapes of its arrays by name."""
    state = {
        key: torch.from_numpy(formula.state_array(key, tuple(value.shape)))
        for key, value in state.items()
        if value.ndim
    }
    return state, np.array(
        [f"{key} {' '.join(map(str, value.shape))}" for key, value in state.items()]
    )


@torch.no_grad()
def main():
    fixtures = {}
    model, fixtures["googlenet_shapes"] = by_formula(GoogLeNet(10))
    for size in (64, 75, 120):
        x = (images(size) / 255 - MEAN) / STD
        fixtures[f"googlenet_outputs_{size}"] = model(x).numpy()
        features = model.features(x).permute(0, 2, 3, 1).numpy()
        fixtures[f"googlenet_features_{size}"] = features[..., ::16]
    model, fixtures["vgg16_shapes"] = by_formula(VGG16(10))
    for size in (64, 224):
        fixtures[f"vgg16_outputs_{size}"] = model((images(size) / 255 - MEAN) / STD).numpy()
    state, *deeper = (
        torch.load(path, map_location="cpu", weights_only=True) for path in sys.argv[1:]
    )
    for size in (107, 128):
        x = (images(size) - 127) / 128
        fixtures[f"lite0_outputs_{size}"] = lite(state, x, LITE0_STRIDES).numpy()
    for number, state in enumerate(deeper, 1):
        name = f"efficientnet_lite{number}"
        # Of the files, which are not shipped, only the shapes are kept.
        by_name, fixtures[f"{name}_shapes"] = filled(state)
        for size in (107, 128):
            x = (images(size) - 127) / 128
            fixtures[f"{name}_outputs_{size}"] = lite(by_name, x, DEEPER_STRIDES).numpy()
    np.savez_compressed(FIXTURES, **fixtures)


if __name__ == "__main__":
    main()
