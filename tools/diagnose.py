r"""Explain why a detector draws what it draws, before you change its settings.

  gc-net diagnose --model=runs/mine/model
  gc-net diagnose --model=runs/birds/model --landscape
  gc-net diagnose --model=runs/birds/model --second_looks --classifiers=runs/birds --limit=1000

The first measures agreement: whether the detector places the same shape when an image is cropped
elsewhere or mirrored. It needs no boxes, so it may be used to choose settings. But it favours large
shapes, which overlap more easily.

The second adds the losses at masks of known boxes, and from which α on these win over the whole
image. It reads the boxes of a few images, so use it to understand, and never to choose a setting.

The third tries several second looks: how well a close-up of the shape is classified, alone and
together with the whole image. It needs labels and no boxes, so it may be used to choose a second
look. Choose before a second classifier is trained, because that is trained for one second look.
"""

from absl import app, flags

from . import data_flags, path_flags, program

FLAGS = flags.FLAGS

path_flags.define("model", None, "Folder of the model, e.g. runs/mine/model.", required=True)
data_flags.define(split="train")
flags.adopt_module_key_flags(data_flags)
flags.DEFINE_bool("landscape", False, "Also show the losses at masks of known boxes; reads boxes.")
flags.DEFINE_bool("second_looks", False, "Show only how good several second looks are.")
path_flags.define(
    "classifiers",
    None,
    "With --second_looks, a run trained with --classifier_num_folds: the classifier that was not "
    "fitted on a training image judges it.",
)
flags.DEFINE_integer("limit", 256, "Most images to look at.", lower_bound=1)


@program.tool(argument="model")
def main(_):
    if FLAGS.classifiers is not None and not FLAGS.second_looks:
        raise app.UsageError("--classifiers is for --second_looks.")
    if FLAGS.landscape and FLAGS.second_looks:
        raise app.UsageError(
            "Give --landscape or --second_looks, not both: one reads boxes, the other must not."
        )
    from gc_net.evaluation.second_look import diagnose_looks
    from gc_net.experiments.diagnose import diagnose

    if FLAGS.second_looks:
        tell, option = diagnose_looks, {"classifiers": FLAGS.classifiers}
    else:
        tell, option = diagnose, {"with_landscape": FLAGS.landscape}
    tell(FLAGS.model, data_flags.dataset(), split=FLAGS.split, limit=FLAGS.limit, **option)


if __name__ == "__main__":
    program.run(main)
