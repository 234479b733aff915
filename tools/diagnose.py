r"""Tells why a detector draws what it draws, before one changes its settings.

  python -m tools.diagnose --model=runs/mine/model
  python -m tools.diagnose --model=runs/birds/model --landscape

The first measures agreement: whether the detector places the same shape when an image is cropped
elsewhere or mirrored. It needs no boxes, so it may choose between settings, but it favours large
shapes, which overlap more easily.

The second adds the losses at masks of known boxes, and from which α on these win over the whole
image. It reads the boxes of a few images, so it is for understanding and must choose nothing.
"""

import sys

from absl import app, flags

from tools import data_flags

FLAGS = flags.FLAGS

flags.DEFINE_string("model", None, "Folder of the model, e.g. runs/mine/model.", required=True)
data_flags.define(split="train")
flags.adopt_module_key_flags(data_flags)
flags.DEFINE_bool("landscape", False, "Also show the losses at masks of known boxes; reads boxes.")
flags.DEFINE_integer("limit", 256, "Most images to look at.", lower_bound=1)


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {' '.join(argv[1:])}")
    from gc_net.evaluation.diagnosis import diagnose

    try:
        diagnose(
            FLAGS.model,
            data_flags.dataset(),
            split=FLAGS.split,
            with_landscape=FLAGS.landscape,
            limit=FLAGS.limit,
        )
    except (ValueError, OSError) as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    app.run(main)
