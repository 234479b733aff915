r"""Trains the learned generator of one shape, measures it, and writes its weights.

  python -m tools.train_generator --shape=rotated_ellipse --output=runs/generators

Writes <shape>_<network>.npz (half precision) and the same name with .json beside it: the settings
and the mean IoU with exact masks on unseen coefficients. Stopped at any moment, the same command
goes on where it was.
"""

from absl import app, flags

from gc_net.stages.config import GeneratorConfig
from tools import config_flags, path_flags

config_flags.define(GeneratorConfig)
flags.adopt_module_key_flags(config_flags)
path_flags.define("output", "runs/generators", "Folder to write to.")


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {' '.join(argv[1:])}")
    with config_flags.ending_plainly():
        from gc_net.stages.generator import make_generator

        measured = make_generator(config_flags.read(GeneratorConfig), flags.FLAGS.output)
    for group, values in measured.items():
        print(f"{group:14} {values['mean_iou']:.4f}  ({values['num_samples']} shapes)")


if __name__ == "__main__":
    app.run(main)
