r"""Measures speed, memory and size, side by side in one run; prints tables for docs/benchmarks.md.

python -m benchmarks --what=step --backbones=efficientnet_lite0 --image_sizes=128
python -m benchmarks --what=input --dataset=cub --data_dir=CUB_200_2011
python -m benchmarks --what=predict --images=photos
python -m benchmarks --what=revisions --folders=../before,. --images=photos
python -m benchmarks --what=objects --model=runs/ilsvrc_lite/model --data_dir=ILSVRC
python -m benchmarks --what=objects --dataset=cub --data_dir=CUB_200_2011 --pairs=60

Flags that are not set have the benchmark's own defaults, see benchmarks/.
Benchmarks are no part of the installed package: they run in a checkout.
"""

import inspect

from absl import app, flags

from benchmarks import BENCHMARKS
from gc_net.backbones import BACKBONES
from gc_net.datasets import DATASETS
from tools import path_flags, program

FLAGS = flags.FLAGS
flags.DEFINE_enum("what", None, BENCHMARKS.names, "What to measure.", required=True)


def _define(make, name, *arguments, **keywords):
    make(name, None, *arguments, **keywords)
    return name


SETTINGS = (
    _define(flags.DEFINE_integer, "rounds", "Rounds in which all have their turn.", lower_bound=1),
    _define(flags.DEFINE_integer, "seed", "Of random images and coefficients."),
    _define(flags.DEFINE_list, "backbones", f"Of: {', '.join(BACKBONES.names)}."),
    _define(flags.DEFINE_list, "image_sizes", "Sides of images to measure at."),
    _define(flags.DEFINE_integer, "batch_size", "Images a batch.", lower_bound=1),
    _define(flags.DEFINE_enum, "precision", ("float32", "mixed_bfloat16"), "Of the networks."),
    _define(flags.DEFINE_enum, "backbone", BACKBONES.names, "Of an untrained model."),
    _define(flags.DEFINE_integer, "image_size", "Of an untrained model.", lower_bound=16),
    _define(path_flags.define, "model", "Folder of a model, in place of an untrained one."),
    _define(path_flags.define, "images", "Folder, pattern or .txt list; generated if not set."),
    _define(flags.DEFINE_integer, "num_images", "How many images to use.", lower_bound=1),
    _define(flags.DEFINE_enum, "dataset", DATASETS.names, "Kind of dataset."),
    _define(path_flags.define, "data_dir", "Folder of the dataset."),
    _define(flags.DEFINE_list, "sizes", "Numbers of images to measure with."),
    _define(flags.DEFINE_list, "stages", "Which stages to measure the size of."),
    _define(flags.DEFINE_integer, "max_objects", "Most objects of an image.", lower_bound=1),
    _define(flags.DEFINE_string, "train_from", "First layer of a trunk that is trained."),
    _define(flags.DEFINE_list, "folders", "Checkouts to compare; the first is compared with."),
    _define(flags.DEFINE_integer, "pairs", "Pictures to make of two images.", lower_bound=1),
    _define(path_flags.define, "plot", "File to draw the result to."),
)
WHOLE_NUMBERS = ("image_sizes", "sizes")


@program.tool(argument="what")
def main(_):
    import benchmarks

    report = benchmarks.get(FLAGS.what)
    settings = {name: FLAGS[name].value for name in SETTINGS if FLAGS[name].present}
    known = inspect.signature(report).parameters
    for name in settings:
        if name not in known:
            raise app.UsageError(
                f"--{name} means nothing to --what={FLAGS.what}, which takes: "
                + ", ".join(f"--{setting}" for setting in known)
            )
    for name in WHOLE_NUMBERS:
        if name in settings:
            if not all(value.isdecimal() and int(value) for value in settings[name]):
                raise app.UsageError(
                    f"--{name} takes whole numbers above 0, with commas between them. "
                    f"Received: {','.join(settings[name])}"
                )
            settings[name] = [int(value) for value in settings[name]]
    for block in report(**settings):
        print(f"{block}\n", flush=True)


if __name__ == "__main__":
    program.run(main)
