r"""Localize and classify images, and write label files in their own pixels.

gc-net predict --model=runs/birds --images=photos --output=out
gc-net predict --model=runs/birds --images='photos/**/*.jpg' --output=out \
    --format=label_studio --min_confidence=0.6 --previews=50 --previews_of=doubtful

--images is a folder, an image, a pattern, or a .txt file with one path a line. The same command
resumes an interrupted run. The exit status is 0 if all is well, 3 if images could not be read (they
are listed in unreadable.txt), 2 if the run could not be done, and 1 if a flag is wrong.
"""

from absl import app, flags

from gc_net.prediction.formats import FORMATS

from . import engine_flag, path_flags, program, second_look_flag

FLAGS = flags.FLAGS
path_flags.define("model", None, "Folder of the model, or of the run it is in.", required=True)
path_flags.define("images", None, "Folder, image, pattern or .txt list.", required=True)
path_flags.define("output", None, "Folder to write to.", required=True)
flags.DEFINE_enum("format", "coco", FORMATS.names, "Kind of label files.")
flags.DEFINE_integer("batch_size", 32, "Images that go through the model at once.", lower_bound=1)
flags.DEFINE_bool("confidence", True, "Say how far each localization can be trusted.")
flags.DEFINE_bool(
    "evidence",
    False,
    "Also ask the classifier what it sees inside and outside of the shape; about twice as long.",
)
flags.DEFINE_float(
    "min_confidence",
    None,
    "Images below it go to review.csv, the most doubtful first, instead of the label files.",
    lower_bound=0,
    upper_bound=1,
)
second_look_flag.define()
flags.adopt_module_key_flags(second_look_flag)
engine_flag.define()
flags.adopt_module_key_flags(engine_flag)
flags.DEFINE_enum(
    "labels",
    None,
    ["folders"],
    "Where the class of each image comes from, if it is known: the name of its folder.",
)
flags.DEFINE_integer(
    "max_objects",
    1,
    "Most objects to look for in an image: a box around two is split, what was found is hidden, "
    "and the rest is searched again.",
    lower_bound=1,
)
flags.DEFINE_string("previews", "0", "How many images to draw the result on: a number, or all.")
flags.DEFINE_enum(
    "previews_of",
    "classes",
    ["classes", "doubtful"],
    "Which images to draw: the classes in turn, or those of the lowest confidence.",
)
flags.DEFINE_string(
    "url_prefix",
    None,
    "Text before a file's name in Label Studio; that of images which it serves itself if not set.",
)

_SOME_UNREADABLE = 3  # absl itself ends with 1 if a flag is wrong


@program.tool(argument="images")
def main(_):
    if FLAGS.previews != "all" and not FLAGS.previews.isdecimal():
        raise app.UsageError(f"--previews is a number or 'all'. Received: {FLAGS.previews}")
    options = {}
    if FLAGS.url_prefix is not None:
        if FLAGS.format != "label_studio":
            raise app.UsageError("--url_prefix is for --format=label_studio.")
        options["url_prefix"] = FLAGS.url_prefix
    from gc_net.prediction.predict_files import predict_files

    with program.ending_plainly(interrupted=program.RESUMES):
        summary = predict_files(
            FLAGS.model,
            FLAGS.images,
            FLAGS.output,
            FLAGS.format,
            batch_size=FLAGS.batch_size,
            confidence=FLAGS.confidence,
            evidence=FLAGS.evidence,
            min_confidence=FLAGS.min_confidence,
            labels=FLAGS.labels,
            max_objects=FLAGS.max_objects,
            previews=None if FLAGS.previews == "all" else int(FLAGS.previews),
            previews_of=FLAGS.previews_of,
            format_options=options,
            second_look=FLAGS.second_look,
            engine=engine_flag.chosen(),
        )
    print(summary.text())
    return _SOME_UNREADABLE if summary.unreadable else 0


if __name__ == "__main__":
    program.run(main)
