r"""Train the learned generator of one shape, measure it, and write its weights.

  gc-net train_generator --shape=rotated_ellipse --output=runs/generators

Writes <shape>_<network>.npz (half precision) and the same name with .json beside it: the settings
and the mean IoU with exact masks on unseen coefficients. If it is stopped, the same command
resumes.
"""

from absl import flags

from gc_net.stages.config import GeneratorConfig

from . import config_flags, path_flags, program

config_flags.define(GeneratorConfig)
flags.adopt_module_key_flags(config_flags)
path_flags.define("output", "runs/generators", "Folder to write to.")


@program.tool(argument="shape")
def main(_):
    with config_flags.ending_plainly():
        from gc_net.stages.generator import make_generator

        measured = make_generator(config_flags.read(GeneratorConfig), flags.FLAGS.output)
    for group, values in measured.items():
        print(f"{group:14} {values['mean_iou']:.4f}  ({values['num_samples']} shapes)")


if __name__ == "__main__":
    program.run(main)
