"""The detector's training step written in PyTorch, as its users would write it."""

import math

import torch
from torch import nn

from benchmarks.torch_networks import TORCH_NETWORKS
from gc_net import backbones
from gc_net.shapes.base import MIN_EXTENT


class TorchGCNet(nn.Module):
    """Detector, model generator of rotated ellipses, and frozen classifier.

    Args:
        backbone: `"vgg16"` or `"efficientnet_lite0"`.
        image_size: Side of the images.
        num_classes: Number of classes.
        epsilon: Initial ε.
    """

    def __init__(self, backbone, image_size, num_classes, epsilon=0.1):
        super().__init__()
        self.detector = TORCH_NETWORKS.get(backbone)(5)
        self.classifier = TORCH_NETWORKS.get(backbone)(num_classes).requires_grad_(False)
        self.sharpness = nn.Parameter(torch.zeros(()))
        self.initial_epsilon = epsilon
        normalizer = backbones.get(backbone).normalizer()
        for name in ("scale", "offset"):
            values = torch.tensor(getattr(normalizer, name)).reshape(-1, 1, 1)
            self.register_buffer(name, values, persistent=False)
        position = (torch.arange(image_size) + 0.5) / image_size
        self.register_buffer("position", position, persistent=False)

    def train(self, mode=True):
        super().train(mode)
        self.classifier.eval()
        return self

    def masks(self, coefficients):
        """Return M = ½ − arctan(φ/ε)/π, [B, 1, S, S]."""
        cx, cy, width, height, angle = coefficients[:, :, None, None].unbind(1)  # [B, 1, 1] each
        dx, dy = self.position[None, None, :] - cx, self.position[None, :, None] - cy
        cosine, sine = torch.cos(angle), torch.sin(angle)
        alpha = (dx * cosine + dy * sine) / width.clamp_min(MIN_EXTENT)
        beta = (dy * cosine - dx * sine) / height.clamp_min(MIN_EXTENT)
        level = 4 * (alpha.square() + beta.square()) - 1
        epsilon = self.initial_epsilon * torch.exp(-self.initial_epsilon * self.sharpness)
        return (0.5 - torch.arctan(level / epsilon) / math.pi)[:, None]

    def forward(self, images, labels):
        """Return the loss for images [B, 3, S, S] in 0–255, with α = β = γ = 1."""
        normalized = images * self.scale + self.offset
        unit = torch.sigmoid(self.detector(normalized))
        coefficients = torch.cat([unit[:, :4], (unit[:, 4:] - 0.5) * math.pi], dim=1)
        objects = normalized * self.masks(coefficients)
        logits = self.classifier(torch.cat([objects, normalized - objects]))  # [2B, C]
        of_objects, of_backgrounds = logits.chunk(2)
        log_probabilities = torch.log_softmax(of_backgrounds, dim=-1)
        background = (log_probabilities.exp() * log_probabilities).sum(-1).mean()
        area = (coefficients[:, 2] * coefficients[:, 3]).mean()
        return area + nn.functional.cross_entropy(of_objects, labels) + background


def training_step(model, images, labels, memory_format):
    """Return a function that trains by one step, and the same work at each call.

    Args:
        model: A `TorchGCNet`.
        images: [B, S, S, 3] in 0–255, as an array.
        labels: [B].
        memory_format: `torch.contiguous_format`, or `torch.channels_last`, which is faster for
            some networks.
    """
    model = model.to(memory_format=memory_format).train()
    images = torch.tensor(images, dtype=torch.float32).permute(0, 3, 1, 2)
    images = images.contiguous(memory_format=memory_format)
    labels = torch.tensor(labels, dtype=torch.int64)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=1e-4, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = model(images, labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
