r"""Train the classifier alone: the first stage of gc-net train.

  gc-net train_classifier --dataset=folder --data_dir=my_photos --work_dir=runs/mine

Writes work_dir/classifier/model. gc-net train_detector goes on from there.
"""

from absl import flags

from . import config_flags, program

config_flags.define_stages("classifier", own="classifier")
flags.adopt_module_key_flags(config_flags)


@program.tool(argument="data_dir", first=("data_dir", "work_dir"))
def main(_):
    config_flags.run_stages(["classifier"], own="classifier", stages=["classifier"])


if __name__ == "__main__":
    program.run(main)
