r"""Look through a dataset and report what would spoil training or evaluation.

gc-net check --flagfile=recipes/photos.flags --data_dir=my_photos
gc-net check --dataset=cub --data_dir=CUB_200_2011 --json=report.json

Counts images by class, decodes every image, compares every box with its image, finds files that
occur twice, and says where a training with the same flags would stop. It takes all flags of gc-net
train. The exit status is 0 if all is well, 1 if there are problems, and 2 if it cannot look.
"""

import contextlib
import sys

from absl import app, flags

from . import config_flags, path_flags, program

FLAGS = flags.FLAGS
config_flags.define_run()
flags.adopt_module_key_flags(config_flags)
flags.DEFINE_bool("all_classes", False, "Print the number of images of every class.")
flags.DEFINE_integer("examples", 5, "Files to print of each kind of problem.", lower_bound=1)
path_flags.define("json", None, "File to write the whole report to, with every file it names.")
flags.DEFINE_integer("workers", None, "Threads; as many as processors if not given.", lower_bound=1)


@program.tool(argument="data_dir", first=("flagfile", "data_dir", "dataset", "boxes", "json"))
def main(_):
    from gc_net.datasets import open_dataset
    from gc_net.datasets.check import check_dataset
    from gc_net.datasets.check_report import check_place
    from gc_net.stages import STAGES
    from gc_net.stages.dependencies import batch_sizes

    try:
        config = config_flags.read_continued()[0].resolved()
    except ValueError as error:
        raise app.UsageError(str(error)) from None
    if FLAGS.json:
        with _ending_plainly():
            check_place(FLAGS.json)
    dataset = open_dataset(config.data)
    num_folds = len(STAGES.get("fold_classifiers").units(config))
    report = check_dataset(dataset, FLAGS.workers, batch_sizes(config), num_folds)
    print(report.text(FLAGS.all_classes, FLAGS.examples))
    if FLAGS.json:
        with _ending_plainly():
            report.save(FLAGS.json)
    return 1 if report.problems else 0


@contextlib.contextmanager
def _ending_plainly():
    """End the process without a traceback if the report cannot be written."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        print(f"--json={FLAGS.json} cannot be written: {reason}.", file=sys.stderr)
        sys.exit(program.FAILED)


if __name__ == "__main__":
    program.run(main)
