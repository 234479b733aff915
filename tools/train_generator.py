r"""Train the learned generator of one shape, and measure it.

  gc-net train_generator --detector_shape=rotated_ellipse --work_dir=runs/generators

Writes work_dir/generator/<shape>_<network>.npz (half precision) and the same name with .json beside
it: the settings and the mean IoU with exact masks on unseen coefficients. If it is stopped, the
same command resumes. Its flags are those of gc-net train.
"""

from absl import flags

from . import config_flags, program

config_flags.define_run()
flags.adopt_module_key_flags(config_flags)


@program.tool(argument="detector_shape", first=("detector_shape", "generator_steps", "work_dir"))
def main(_):
    with program.ending_plainly(interrupted=program.RESUMES):
        from gc_net.stages.generator import make_generator

        measured = make_generator(*config_flags.read_run())
    for group, values in measured.items():
        print(f"{group:14} {values['mean_iou']:.4f}  ({values['num_samples']} shapes)")


if __name__ == "__main__":
    program.run(main)
