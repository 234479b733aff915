r"""Look through a dataset and report what would spoil training or evaluation.

gc-net check --dataset=folder --data_dir=my_photos
gc-net check --dataset=cub --data_dir=CUB_200_2011 --json=report.json

Counts images by class, decodes every image, compares every box with its image, finds files that
occur twice, and says what would stop a training. The exit status is 0 if all is well and 1 if there
are problems.
"""

import contextlib
import inspect
import sys

from absl import app, flags

from gc_net.datasets import DATASETS

from . import path_flags, program

FLAGS = flags.FLAGS
flags.DEFINE_enum("dataset", "folder", DATASETS.names, "Kind of dataset.")
path_flags.define("data_dir", None, "Folder of the dataset; the creatures have none.")
path_flags.define(
    "boxes", None, "Box file of a folder: COCO .json, .csv, or a folder of XML files."
)
flags.DEFINE_integer("seed", 0, "Seed that splits a folder without a val folder.", lower_bound=0)
flags.DEFINE_integer("batch_size", 32, "Batch size of the planned training.", 1)
flags.DEFINE_integer(
    "num_folds", 2, "Its --classifier_num_folds; 2 as in recipes/photos.flags.", lower_bound=0
)
flags.DEFINE_bool("all_classes", False, "Print the number of images of every class.")
flags.DEFINE_integer("examples", 5, "Files to print of each kind of problem.", lower_bound=1)
path_flags.define("json", None, "File to write the whole report to, with every file it names.")
flags.DEFINE_integer("workers", None, "Threads; as many as processors if not given.", lower_bound=1)


@program.tool(argument="data_dir")
def main(_):
    from gc_net import datasets
    from gc_net.datasets.check import check_dataset
    from gc_net.datasets.check_report import check_place

    options = {"data_dir": FLAGS.data_dir, "seed": FLAGS.seed}
    if FLAGS.boxes is not None:
        if "boxes" not in inspect.signature(DATASETS.get(FLAGS.dataset)).parameters:
            raise app.UsageError(
                f"The dataset {FLAGS.dataset} has its own boxes; leave out --boxes."
            )
        options["boxes"] = FLAGS.boxes
    if FLAGS.json:
        with _ending_plainly():
            check_place(FLAGS.json)
    dataset = datasets.get(FLAGS.dataset, **options)
    report = check_dataset(dataset, FLAGS.workers, FLAGS.batch_size, FLAGS.num_folds)
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
        sys.exit(f"--json={FLAGS.json} cannot be written: {error.strerror or error}.")


if __name__ == "__main__":
    program.run(main)
