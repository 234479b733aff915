"""Models to measure: an untrained one is as fast as a trained one."""

import gc_net
from gc_net import shapes
from gc_net.generators.model import ModelGenerator
from gc_net.localizer import Localizer


def untrained_model(backbone, image_size, num_classes=200):
    """Return a `GCNet` with fresh weights that places ellipses."""
    shape = shapes.get("rotated_ellipse")
    parts = {"backbone": backbone, "image_size": image_size, "weights": None}
    return gc_net.GCNet(
        gc_net.Detector(shape=shape, **parts),
        ModelGenerator(shape, image_size),
        gc_net.Classifier(num_classes=num_classes, **parts),
    )


def write_untrained_model(
    folder, backbone, image_size, num_classes=200, class_names=None, **options
):
    """Write a `Localizer` of such networks to `folder`; `options` are its own."""
    model = untrained_model(backbone, image_size, num_classes)
    names = class_names or [f"class {index}" for index in range(num_classes)]
    parts = model.detector, model.generator, model.classifier
    Localizer(*parts, names, **options).save(folder)
