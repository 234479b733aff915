r"""Tells why a detector draws what it draws, before one changes its settings.

  python -m tools.diagnose --model=runs/mine/model
  python -m tools.diagnose --model=runs/birds/model --landscape

The first measures agreement: whether the detector places the same shape when an image is cropped
elsewhere or mirrored. It needs no boxes, so it may choose between settings, e.g. of α.

The second adds the losses at masks of known boxes, and from which α on these win over the whole
image. It reads the boxes of a few images, so it is for understanding and must choose nothing.
"""

import functools
import sys

from absl import app, flags

from gc_net.datasets import DATASETS

FLAGS = flags.FLAGS

flags.DEFINE_string("model", None, "Folder of the model, e.g. runs/mine/model.", required=True)
flags.DEFINE_enum(
    "dataset", None, DATASETS.names, "Kind of dataset; the one it was trained on if not set."
)
flags.DEFINE_string("data_dir", None, "Folder of the dataset; where it was in training if not set.")
flags.DEFINE_string("dataset_options", None, "More of the dataset's settings, as in training.")
flags.DEFINE_string("boxes", None, "Box file of a folder, for the landscape.")
flags.DEFINE_enum("split", "train", ["train", "test"], "Which part of the dataset to look at.")
flags.DEFINE_bool("landscape", False, "Also show the losses at masks of known boxes; reads boxes.")
flags.DEFINE_integer("limit", 256, "Most images to look at.", lower_bound=1)


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {' '.join(argv[1:])}")
    from gc_net.evaluation.diagnosis import diagnose
    from gc_net.evaluation.evaluate import recorded_dataset

    names = ("dataset", "data_dir", "dataset_options", "boxes")
    data = {name: FLAGS[name].value for name in names if FLAGS[name].value is not None}
    try:
        diagnose(
            FLAGS.model,
            functools.partial(recorded_dataset, **data),
            split=FLAGS.split,
            with_landscape=FLAGS.landscape,
            limit=FLAGS.limit,
        )
    except (ValueError, OSError) as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    app.run(main)
