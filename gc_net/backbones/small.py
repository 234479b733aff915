"""A small network of plain convolutions, trained from scratch within minutes on a CPU."""

from gc_net.backbones.plain import PlainBackbone


class Small(PlainBackbone):
    """Five convolutions with BatchNorm, to a map of 64 channels at stride 8.

    For small images of which there are many, such as drawn ones. A position of the map sees
    47 pixels of the image. Has no ImageNet weights.
    """

    name = "small"
    image_size = 64
    descriptor_layer = "relu5"
    feature_layers = ("relu1", "relu2", "relu5")
    convolutions = ((16, 2), (32, 2), (64, 2), (64, 1), (64, 1))
    kernel_initializer = "he_normal"
