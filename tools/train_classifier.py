r"""Trains the classifier alone: the first stage of tools.train.

  python -m tools.train_classifier --dataset=folder --data_dir=my_photos --work_dir=runs/mine

Writes work_dir/classifier/model. tools.train_detector goes on from there.
"""

from absl import app, flags

from tools import config_flags

config_flags.define_stages("classifier", own="classifier")
flags.adopt_module_key_flags(config_flags)


def main(argv):
    config_flags.run_stages(argv, ["classifier"], own="classifier", stages=["classifier"])


if __name__ == "__main__":
    app.run(main)
