r"""Measure a trained model, beside other methods on the same images.

gc-net evaluate --model=runs/creatures/model
gc-net evaluate --model=runs/birds/model --ten_crop --output=runs/birds/ten_crop

Prints a table and writes metrics.json, predictions.json and report.html to --output. Without
--output, an evaluation that was measured in another way, e.g. by another protocol, is not replaced.
"""

from absl import flags

from gc_net.evaluation.protocols import PROTOCOLS
from gc_net.methods import DEFAULT, METHODS

from . import data_flags, engine_flag, path_flags, program, second_look_flag

FLAGS = flags.FLAGS

path_flags.define("model", None, "Folder of the model, e.g. runs/mine/model.", required=True)
data_flags.define(split="test")
flags.adopt_module_key_flags(data_flags)
path_flags.define(
    "output",
    None,
    "Folder to write to. If not set, `evaluation` beside a folder called `model`, or in any other.",
)
flags.DEFINE_enum("protocol", "paper", PROTOCOLS.names, "When a box counts as right.")
flags.DEFINE_list(
    "methods",
    None,
    f"Methods to compare with, of: {', '.join(METHODS.names)}. If not set, "
    f"{', '.join(DEFAULT)}, if the model allows them; none if empty.",
)
flags.DEFINE_string(
    "level_teacher",
    None,
    "Teacher whose boxes of training images choose a level for heat maps, beside their "
    "authors' own level: auto for the committee, or as for --warmup_teacher of gc-net train.",
)
flags.DEFINE_bool("ten_crop", False, "Classify the mean of ten crops, as in the paper.")
flags.DEFINE_integer("batch_size", 32, "Images a batch.", lower_bound=1)
flags.DEFINE_integer(
    "limit", None, "Evaluate only this many images, spread over the split.", lower_bound=1
)
flags.DEFINE_integer(
    "resize_size", None, "Side to squash images to before the crop; as in training if not set."
)
second_look_flag.define()
flags.adopt_module_key_flags(second_look_flag)
engine_flag.define()
flags.adopt_module_key_flags(engine_flag)
path_flags.define("cache_dir", None, "Folder to keep decoded images in.")
flags.DEFINE_bool("score_maps", False, "Also write score maps for clovaai/wsolevaluation.")
flags.DEFINE_bool("report", True, "Write report.html.")
flags.DEFINE_bool("agreement", True, "Say without boxes whether the shapes follow the images.")


@program.tool(argument="model")
def main(_):
    from gc_net.evaluation.evaluate import run_evaluation
    from gc_net.evaluation.files import evaluation_folder

    output = FLAGS.output or evaluation_folder(FLAGS.model)
    run_evaluation(
        FLAGS.model,
        data_flags.dataset(),
        output,
        agreement=FLAGS.agreement,
        protocol=FLAGS.protocol,
        split=FLAGS.split,
        methods=FLAGS.methods,
        batch_size=FLAGS.batch_size,
        ten_crop=FLAGS.ten_crop,
        limit=FLAGS.limit,
        resize_size=FLAGS.resize_size,
        cache=FLAGS.cache_dir,
        second_look=FLAGS.second_look,
        level_teacher=FLAGS.level_teacher,
        engine=engine_flag.chosen(),
        score_maps=FLAGS.score_maps,
        report=FLAGS.report,
        replace=FLAGS.output is not None,
    )
    print(f"Written to {output}.")


if __name__ == "__main__":
    program.run(main)
