r"""Work out what training by the recipes costs on accelerators, from the networks' own sizes.

python -m examples.training_cost --teraflops=156 --utilization=0.3 --efficiency=0.9

Nothing is measured here: multiplications are counted layer by layer, and the rest are the
assumptions given by the flags. See docs/scaling.md.
"""

import argparse
import dataclasses
import math

# Images of the training splits.
CUB, ILSVRC = 5_994, 1_281_167


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What of a recipe sets its cost; see the file of the same name in `recipes/`."""

    name: str
    backbone: str
    image_size: int
    num_images: int
    classifier_epochs: int
    num_folds: int
    detector_epochs: int
    warmup_epochs: int = 0


RECIPES = (
    Recipe("cub_lite", "efficientnet_lite0", 224, CUB, 8, 0, 0, warmup_epochs=3),
    Recipe("cub_vgg16", "vgg16", 224, CUB, 200, 0, 30),
    Recipe("cub_googlenet", "googlenet", 224, CUB, 200, 0, 30),
    Recipe("ilsvrc_inception_v3", "inception_v3", 299, ILSVRC, 0, 0, 30),
)
# Passes through a network, in units of its forward pass. A backward pass to weights and input
# costs two, one to the input alone costs one.
CLASSIFIER_STEP = WARMUP_STEP = 1 + 2
DETECTOR_STEP = (1 + 2) + 2 * 1 + 2 * 1  # the detector; the frozen classifier on two images


def forward_flops(backbone, image_size):
    """Return the operations of one image's forward pass: two for each multiplication."""
    import keras

    import gc_net

    # Only shapes are asked for, so the variables get no values.
    with keras.StatelessScope(initialize_variables=False):
        network = gc_net.Classifier(backbone, num_classes=200, image_size=image_size, weights=None)
    return 2 * sum(_multiplications(layer) for layer in _layers(network))


def _layers(model):
    for layer in getattr(model, "layers", ()):
        yield layer
        yield from _layers(layer)


def _multiplications(layer):
    kernel = getattr(layer, "kernel", None)
    if kernel is None:
        return 0
    outputs = math.prod(layer.output.shape[1:-1])  # places the kernel is applied at
    return outputs * math.prod(kernel.shape)


def training_flops(recipe, forward):
    """Return the operations of the classifiers' and of the detector's training.

    Layers that a recipe freezes are counted like the others, so for such a one it is a bound.
    """
    # With folds, each is trained on all images but its own part, and one classifier on all.
    passes = 1 + max(recipe.num_folds - 1, 0)
    classifier = recipe.classifier_epochs * passes * recipe.num_images * CLASSIFIER_STEP * forward
    passes = recipe.warmup_epochs * WARMUP_STEP + recipe.detector_epochs * DETECTOR_STEP
    return classifier, recipe.num_images * passes * forward


def rows(flags):
    """Yield the cells of the table, recipe by recipe."""
    speed = flags.teraflops * 1e12 * flags.utilization
    for recipe in RECIPES:
        forward = forward_flops(recipe.backbone, recipe.image_size)
        classifier, detector = training_flops(recipe, forward)
        one = (classifier + detector) / speed / 3600
        several = one / (flags.devices * flags.efficiency)
        images = speed / (DETECTOR_STEP * forward)
        yield (
            recipe.name,
            f"{forward / 1e9:.2f}",
            f"{classifier / 1e15:,.1f}",
            f"{detector / 1e15:,.1f}",
            f"{images:,.0f}",
            f"{one:,.2f}",
            f"{several:,.2f}",
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--teraflops", type=float, default=156.0, help="Peak of one device.")
    parser.add_argument("--utilization", type=float, default=0.3, help="Part of it reached.")
    parser.add_argument("--efficiency", type=float, default=0.9, help="Of several devices.")
    parser.add_argument("--devices", type=int, default=8, help="How many several are.")
    flags = parser.parse_args()
    head = ("recipe", "GFLOP an image, forward", "PFLOP, classifier", "PFLOP, detector")
    head += ("detector images/s, 1 device", "hours, 1 device", f"hours, {flags.devices} devices")
    for cells in (head, ["---"] * len(head), *rows(flags)):
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
