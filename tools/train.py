r"""Trains a localizer from a folder of labelled images, all stages in one go.

  python -m tools.train --flagfile=recipes/photos.flags --data_dir=my_photos --work_dir=runs/mine
  python -m tools.train --flagfile=recipes/creatures.flags

Recipes are files of flags, and flags given after one take precedence. Without a recipe there is no
warm-up, no random mask and no fold, and the losses weigh what they do in the paper;
recipes/cub_vgg16.flags has the paper's settings throughout.

Ends with work_dir/model, which tools.predict, tools.evaluate and tools.export take. Stopped at any
moment, the same command goes on where it was, and ends with the same weights.
"""

from absl import app, flags

from gc_net.stages.config import STAGES
from tools import config_flags

config_flags.define_stages(*STAGES)
flags.adopt_module_key_flags(config_flags)
flags.DEFINE_multi_enum(
    "stage", list(STAGES), STAGES, "Stage to run; give it more than once for several. All if not."
)
flags.DEFINE_bool("evaluate", True, "Evaluate on the test images at the end and write report.html.")


def main(argv):
    config_flags.run_stages(argv, STAGES, stages=flags.FLAGS.stage, evaluate=flags.FLAGS.evaluate)


if __name__ == "__main__":
    app.run(main)
