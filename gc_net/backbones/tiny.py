"""A network of a few thousand parameters, for tests and for trying out a pipeline in seconds."""

from gc_net.backbones.plain import PlainBackbone


class Tiny(PlainBackbone):
    """Three strided convolutions with BatchNorm, to a map at stride 8. Has no ImageNet weights."""

    name = "tiny"
    image_size = 32
    descriptor_layer = "relu3"
    feature_layers = ("relu1", "relu2", "relu3")
    convolutions = ((8, 2), (16, 2), (32, 2))
