r"""Export a trained model: for TF Serving, as TFLite files, or as a small folder.

gc-net export --model=runs/birds --output=saved_models/birds
gc-net export --model=runs/birds --output=tflite/birds --format=tflite \
    --calibration_images=photos
gc-net export --model=runs/birds --output=saved_models/birds --format=folder

Writes a new version, OUTPUT/1, then OUTPUT/2 and so on. Each appears complete, at once, and never
changes. --format=folder has no versions, and half the bytes of a run's model. The outputs are
compared with those of the Keras model, and the differences are printed.
"""

from absl import app, flags

from gc_net.export import EXPORTS

from . import path_flags, program, second_look_flag

FLAGS = flags.FLAGS
path_flags.define("model", None, "Folder of the model, or of the run it is in.", required=True)
path_flags.define(
    "output",
    None,
    "Folder of the model's versions; with --format=folder, the folder to make.",
    required=True,
)
flags.DEFINE_enum("format", "saved_model", EXPORTS.names, "What to write.")
flags.DEFINE_integer(
    "export_version", None, "Number of the version; the next one if not set.", lower_bound=1
)
flags.DEFINE_string("license", None, "Licence of the weights, for the model card.")
second_look_flag.define()
flags.adopt_module_key_flags(second_look_flag)
flags.DEFINE_integer(
    "top_k", 5, "Number of classes a SavedModel returns; 0 for all.", lower_bound=0
)
path_flags.define(
    "compare_images",
    None,
    "Photos to compare a SavedModel's boxes on with those of gc-net predict: folder, pattern or "
    ".txt list; drawn ones if not set.",
)
path_flags.define(
    "calibration_images", None, "Images for TFLite's int8: folder, pattern or .txt list."
)
flags.DEFINE_integer("num_calibration", 100, "How many of them to use.", lower_bound=1)

_OPTIONS = {
    "saved_model": ("top_k", "compare_images"),
    "folder": (),
    "tflite": ("calibration_images", "num_calibration"),
}


@program.tool(argument="model")
def main(_):
    for other, names in _OPTIONS.items():
        for name in names:
            if other != FLAGS.format and FLAGS[name].present:
                raise app.UsageError(f"--{name} is for --format={other}.")
    if FLAGS["num_calibration"].present and FLAGS.calibration_images is None:
        raise app.UsageError("--num_calibration needs --calibration_images, which are not given.")
    options = {name: FLAGS[name].value for name in _OPTIONS[FLAGS.format]}
    try:
        folder, differences = EXPORTS.get(FLAGS.format)(
            FLAGS.model,
            FLAGS.output,
            version=FLAGS.export_version,
            license_text=FLAGS.license,
            second_look=FLAGS.second_look,
            **options,
        )
    except RuntimeError as error:  # from `gc_net.export.parity`
        raise ValueError(error) from error
    print(f"Written to {folder}. Against the Keras model, the largest differences:")
    for name, difference in differences.items():
        print(f"  {name}: {difference:.2g}")


if __name__ == "__main__":
    program.run(main)
