r"""Train the detector on a classifier that is there: the last stages of gc-net train.

  gc-net train_detector --dataset=folder --data_dir=my_photos --work_dir=runs/mine

Takes work_dir/classifier, which gc-net train_classifier made with the same data and seed, and
writes work_dir/model. To try several detectors on one classifier, name its run's folder with
--classifier_dir and give each detector a --work_dir of its own; --warmup_dir likewise, where they
differ in the last stage only.
"""

from absl import flags

from . import config_flags, path_flags, program

config_flags.define_stages("warmup", "detector", "namer", own="detector")
flags.adopt_module_key_flags(config_flags)
path_flags.define(
    "classifier_dir", None, "The run whose classifier to use, where it is not in work_dir."
)
path_flags.define("warmup_dir", None, "The run whose warm-up to use, where it is not in work_dir.")
flags.DEFINE_bool("evaluate", True, "Evaluate on the test images at the end and write report.html.")


@program.tool(argument="data_dir", first=("data_dir", "work_dir"))
def main(_):
    config_flags.run_stages(
        ["warmup", "detector", "namer"],
        own="detector",
        stages=["generator", "warmup", "detector", "namer"],
        evaluate=flags.FLAGS.evaluate,
        classifier_dir=flags.FLAGS.classifier_dir or flags.FLAGS.work_dir,
        warmup_dir=flags.FLAGS.warmup_dir,
    )


if __name__ == "__main__":
    program.run(main)
