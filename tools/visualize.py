r"""Draw figures like the paper's from trained models: PNG, JPEG or PDF.

gc-net visualize --model=runs/birds/model --output=predictions.pdf
gc-net visualize --figure=ablation --output=ablation.png \
  --model="object only"=runs/a/model --model="all losses"=runs/b/model
gc-net visualize --figure=entropy --model=runs/birds/model --count=64 --output=entropy.pdf
"""

from absl import app, flags

from gc_net.figures.figure import FIGURES

from . import data_flags, path_flags, program

FLAGS = flags.FLAGS
# What a figure has no use for.
_UNUSED = {"entropy": ("columns", "captions"), "ablation": ("captions",)}

flags.DEFINE_enum(
    "figure",
    "predictions",
    FIGURES.names,
    "predictions: Fig. 1 of the paper. entropy: Fig. 5. ablation: Fig. 6. objects: Fig. 7.",
)
flags.DEFINE_multi_string(
    "model",
    None,
    "Folder of a model, or name=folder. May be given several times.",
    required=True,
)
path_flags.define("output", "figure.png", "File to write: .png, .jpg or .pdf.")
data_flags.define(split="test")
flags.adopt_module_key_flags(data_flags)
flags.DEFINE_integer("count", 8, "How many images; for `objects`, of each kind.", lower_bound=1)
flags.DEFINE_integer("columns", 8, "How many in a row.", lower_bound=1)
flags.DEFINE_integer("cell", 224, "Side of each image, in pixels.", lower_bound=16)
flags.DEFINE_integer("seed", 0, "Which images.", lower_bound=0)
flags.DEFINE_bool("captions", False, "Write class names below the images.")
flags.DEFINE_integer("dpi", 300, "Resolution of a PDF, in dots an inch.", lower_bound=1)


@program.tool(argument="model")
def main(_):
    for name in _UNUSED.get(FLAGS.figure, ()):
        if FLAGS[name].present:
            raise app.UsageError(f"--{name} does nothing for --figure={FLAGS.figure}.")
    from gc_net.figures.figure import visualize

    options = ("split", "count", "columns", "cell", "seed", "captions")
    visualize(
        FLAGS.output,
        FLAGS.figure,
        FLAGS.model,
        data_flags.dataset(),
        dots_per_inch=FLAGS.dpi,
        **{name: FLAGS[name].value for name in options},
    )
    print(f"Written to {FLAGS.output}.")


if __name__ == "__main__":
    program.run(main)
