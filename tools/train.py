r"""Train a localizer from a folder of labelled images, all stages in one go.

  gc-net train --flagfile=recipes/photos.flags --data_dir=my_photos --work_dir=runs/mine
  gc-net train --flagfile=recipes/creatures.flags
  gc-net train --flagfile=recipes/photos.flags --data_dir=my_photos --work_dir=runs/tighter \
      --loss_weights=area=4 --reuse=runs/mine

Recipes are files of flags; flags after a recipe take precedence. Without a recipe, there is no
warm-up, no random mask and no fold, and the losses have the paper's weights.
recipes/cub_vgg16.flags has all of the paper's settings.

The result is work_dir/model, for gc-net predict, evaluate and export. If the training is stopped,
the same command resumes it, and ends with the same weights. --reuse names runs whose finished
stages are used if their settings agree. --stage trains only some stages, and the stages they need.
"""

from absl import flags

from gc_net.stages import STAGES

from . import config_flags, program

config_flags.define_run()
flags.adopt_module_key_flags(config_flags)
flags.DEFINE_multi_enum(
    "stage", None, STAGES.names, "Stage to run; may be given more than once. All stages if not set."
)
flags.DEFINE_string(
    "budget",
    None,
    "How long it may take, e.g. 90s, 15m or 2h. If the whole training takes longer, it gets a "
    "smaller image size and fewer steps. Flags of the command line keep their values.",
)
flags.DEFINE_bool("evaluate", True, "Evaluate on the test images at the end and write report.html.")


@program.tool(
    argument="data_dir", first=("flagfile", "data_dir", "work_dir", "budget", "detector_shape")
)
def main(_):
    given = flags.FLAGS
    config_flags.run_stages(stages=given.stage, evaluate=given.evaluate, budget=given.budget)


if __name__ == "__main__":
    program.run(main)
