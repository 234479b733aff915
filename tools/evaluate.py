r"""Measure a trained model, beside baselines on the same images.

python -m tools.evaluate --model=runs/demo/model --dataset=creatures
python -m tools.evaluate --model=runs/birds/model --dataset=cub --data_dir=CUB_200_2011 --ten_crop

Prints a table and writes metrics.json, predictions.json and report.html to --output.
"""

import inspect
import os
import sys

from absl import app, flags

from gc_net.datasets import DATASETS
from gc_net.evaluation.baselines import BASELINES
from gc_net.evaluation.protocols import PROTOCOLS

FLAGS = flags.FLAGS

flags.DEFINE_string("model", None, "Folder of the model, e.g. runs/mine/model.", required=True)
flags.DEFINE_enum("dataset", "folder", DATASETS.names, "Kind of dataset.")
flags.DEFINE_string("data_dir", None, "Folder of the dataset; the creatures have none.")
flags.DEFINE_string("boxes", None, "Box file of a folder: COCO .json, .csv, or a folder of XMLs.")
flags.DEFINE_integer("seed", 0, "Seed of the dataset.", lower_bound=0)
flags.DEFINE_string("output", None, "Folder to write to; `evaluation` beside the model if not set.")
flags.DEFINE_enum("split", "test", ["train", "test"], "Which part of the dataset.")
flags.DEFINE_enum("protocol", "paper", PROTOCOLS.names, "When a box counts as right.")
flags.DEFINE_list(
    "baselines",
    None,
    f"Methods to compare with, of: {', '.join(BASELINES.names)}. All that need no download if not "
    "set; none if empty.",
)
flags.DEFINE_bool("ten_crop", False, "Classify the mean of ten crops, as in the paper.")
flags.DEFINE_integer("batch_size", 32, "Images a batch.", lower_bound=1)
flags.DEFINE_integer("limit", None, "Only so many images, spread over the split.", lower_bound=1)
flags.DEFINE_integer(
    "resize_size", None, "Side to squash images to before the crop; as in training if not set."
)
flags.DEFINE_string("cache_dir", None, "Folder to keep decoded images in.")
flags.DEFINE_bool("score_maps", False, "Also write score maps for clovaai/wsolevaluation.")
flags.DEFINE_bool("report", True, "Write report.html.")


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {' '.join(argv[1:])}")
    from gc_net import datasets
    from gc_net.evaluation.evaluate import run_evaluation

    options = {"data_dir": FLAGS.data_dir, "seed": FLAGS.seed}
    if FLAGS.boxes is not None:
        if "boxes" not in inspect.signature(DATASETS.get(FLAGS.dataset)).parameters:
            raise app.UsageError(
                f"The dataset {FLAGS.dataset} has its own boxes; leave out --boxes."
            )
        options["boxes"] = FLAGS.boxes
    output = FLAGS.output or os.path.join(
        os.path.dirname(os.path.abspath(FLAGS.model)), "evaluation"
    )
    try:
        run_evaluation(
            FLAGS.model,
            datasets.get(FLAGS.dataset, **options),
            output,
            protocol=FLAGS.protocol,
            split=FLAGS.split,
            baselines=FLAGS.baselines,
            batch_size=FLAGS.batch_size,
            ten_crop=FLAGS.ten_crop,
            limit=FLAGS.limit,
            resize_size=FLAGS.resize_size,
            cache=FLAGS.cache_dir,
            score_maps=FLAGS.score_maps,
            report=FLAGS.report,
        )
    except ValueError as error:
        sys.exit(f"{FLAGS.model}: {error}")
    print(f"Written to {output}.")


if __name__ == "__main__":
    app.run(main)
