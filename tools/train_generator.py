r"""Train the learned generator of one shape, measure it, and write its weights.

  python -m tools.train_generator --shape=rotated_ellipse --output=runs/generators

Writes <shape>_<network>.npz (half precision) and the same name with .json beside it: the settings
and the mean IoU with exact masks on unseen coefficients. Killed, the same command goes on.
"""

import dataclasses
import json
import os

from absl import app, flags

from gc_net.shapes import SHAPES

_NETWORKS = ("implicit", "paper")

SHAPE = flags.DEFINE_enum("shape", "rotated_ellipse", SHAPES.names, "Shape to draw.")
NETWORK = flags.DEFINE_enum(
    "network", "implicit", _NETWORKS, "`paper` is the paper's, `implicit` the better one."
)
SAMPLER = flags.DEFINE_enum(
    "sampler", "full", ("full", "reference"), "All a detector can ask for, or the authors' range."
)
RECIPE = flags.DEFINE_enum(
    "recipe", "fast", ("fast", "paper"), "Adam for hours on a CPU, or the paper's SGD."
)
STEPS = flags.DEFINE_integer("steps", 10_000, "Number of batches.", lower_bound=1)
BATCH_SIZE = flags.DEFINE_integer("batch_size", 128, "Shapes a batch.", lower_bound=1)
LEARNING_RATE = flags.DEFINE_float("learning_rate", 2e-3, "Initial rate.", lower_bound=0.0)
SEED = flags.DEFINE_integer("seed", 0, "Seed of initial weights and samples.")
OUTPUT = flags.DEFINE_string("output", "runs/generators", "Folder to write to.")


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {argv[1:]}")
    from gc_net.training import generator as training
    from gc_net.weights import save_weights_npz

    config = training.GeneratorConfig(
        shape=SHAPE.value,
        network=NETWORK.value,
        sampler=SAMPLER.value,
        steps=STEPS.value,
        batch_size=BATCH_SIZE.value,
        learning_rate=LEARNING_RATE.value,
        recipe=RECIPE.value,
        seed=SEED.value,
    )
    name = os.path.join(OUTPUT.value, f"{config.shape}_{config.network}")
    os.makedirs(OUTPUT.value, exist_ok=True)
    generator = training.train_generator(config, backup_dir=f"{name}_backup")
    save_weights_npz(f"{name}.npz", generator.network)
    measured = training.measure_generator(generator)
    with open(f"{name}.json", "w") as file:
        json.dump({"config": dataclasses.asdict(config), "iou": measured}, file, indent=2)
    for group, values in measured.items():
        print(f"{group:14} {values['mean_iou']:.4f}  ({values['num_samples']} shapes)")


if __name__ == "__main__":
    app.run(main)
