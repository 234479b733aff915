"""The networks that a training starts from. This module imports no TensorFlow."""

from typing import TYPE_CHECKING, Any

from gc_net import methods
from gc_net.methods import GC_NET
from gc_net.settings import Settings

if TYPE_CHECKING:
    from gc_net.classifier import Classifier


def build_classifier(config: Settings, num_classes: int) -> "Classifier":
    """Return a new `Classifier` with the weights that training starts from.

    Args:
        config: A `TrainConfig`.
    """
    from gc_net.run_files import RunError

    name = config.classifier.method
    head = "native" if name == GC_NET else methods.get(name).head
    classifier = untrained(
        config,
        num_classes,
        config.data.image_size,
        head=head,
        finer_map=config.classifier.finer_map,
    )
    if config.classifier.recipe == "none" and num_classes != 1000:
        raise RunError(
            "The classifier's recipe `none` takes the 1000-class ImageNet weights as they are, but "
            f"the dataset has {num_classes} classes. Use the recipe `fast` or `paper`."
        )
    if config.classifier.recipe == "none" and classifier.initial_variables:
        raise RunError(
            "The classifier's recipe `none` trains nothing, but the weights "
            f"{config.network.weights!r} have nothing for these of its head: "
            f"{', '.join(classifier.initial_variables)}. Give --weights with a head of 1000 "
            "classes, e.g. imagenet, or use the recipe `fast` or `paper`."
        )
    return classifier


def untrained(
    config: Settings,
    num_classes: int,
    image_size: int,
    **kwargs: Any,
) -> "Classifier":
    """Return a `Classifier` of the network and the weights that a `TrainConfig` names.

    Args:
        kwargs: Of `Classifier`.
    """
    from gc_net.classifier import Classifier

    return Classifier(
        config.network.backbone,
        num_classes=num_classes,
        image_size=image_size,
        weights=None if config.network.weights == "none" else config.network.weights,
        **kwargs,
    )
