"""What tests of trained models have in common."""

from gc_net.localizer import Localizer


def localizer_of(model, class_names, **options):
    """Return the `Localizer` of a `GCNet`'s networks."""
    return Localizer(model.detector, model.generator, model.classifier, class_names, **options)
