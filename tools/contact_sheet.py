r"""Draw images of a dataset in a grid, with boxes and outlines if they are known.

gc-net contact_sheet --dataset=creatures --output=sheet.png
gc-net contact_sheet --dataset=folder --data_dir=my_photos --count=40 --output=sheet.jpg
gc-net contact_sheet --dataset=folder --data_dir=my_photos --boxes=my_boxes.csv --split=train
"""

from absl import flags

from . import data_flags, path_flags, program

FLAGS = flags.FLAGS

data_flags.define(split="test", dataset="creatures")
flags.adopt_module_key_flags(data_flags)
path_flags.define("output", "sheet.png", "Image file to write: .png or .jpg.")
flags.DEFINE_integer("count", 20, "How many images, the classes in turn.", lower_bound=1)
flags.DEFINE_integer("columns", 5, "How many in a row.", lower_bound=1)
flags.DEFINE_integer("cell", 224, "Longer side of each on the sheet, in pixels.", lower_bound=16)
flags.DEFINE_integer("seed", None, "Seed of the dataset; its own if not set.", lower_bound=0)
flags.DEFINE_bool("truth", True, "Draw boxes, outlines and axes if they are known.")


@program.tool(argument="data_dir")
def main(_):
    from gc_net.figures.contact_sheet import save_sheet

    dataset = data_flags.opened(**({} if FLAGS.seed is None else {"seed": FLAGS.seed}))
    count = save_sheet(
        FLAGS.output,
        dataset.split(FLAGS.split),
        dataset.truth(FLAGS.split) if FLAGS.truth else None,
        count=FLAGS.count,
        columns=FLAGS.columns,
        cell=FLAGS.cell,
    )
    print(f"Wrote {count} images to {FLAGS.output}.")


if __name__ == "__main__":
    program.run(main)
