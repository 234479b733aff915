r"""Measures the input pipeline beside Keras' own on your images.

python -m tools.benchmark_input --dataset=cub --data_dir=CUB_200_2011
"""

import sys

from absl import app, flags

from gc_net.datasets import DATASETS

FLAGS = flags.FLAGS
flags.DEFINE_enum("dataset", "folder", DATASETS.names, "Kind of dataset.")
flags.DEFINE_string("data_dir", None, "Folder of the dataset.", required=True)
flags.DEFINE_list("image_sizes", ["128", "224"], "Sides to measure at.")
flags.DEFINE_integer("batch_size", 32, "Images a batch.", lower_bound=1)
flags.DEFINE_integer("num_images", 2000, "Images of the training split to read.", lower_bound=1)
flags.DEFINE_integer(
    "rounds", 5, "Rounds in which every way of reading has its turn.", lower_bound=1
)


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {' '.join(argv[1:])}")
    from gc_net import datasets
    from gc_net.benchmarks.input import as_table, measure_input
    from gc_net.datasets.base import DataError

    try:
        measurements = measure_input(
            datasets.get(FLAGS.dataset, data_dir=FLAGS.data_dir).split("train"),
            image_sizes=[int(size) for size in FLAGS.image_sizes],
            batch_size=FLAGS.batch_size,
            num_images=FLAGS.num_images,
            rounds=FLAGS.rounds,
        )
    except DataError as error:
        sys.exit(f"{FLAGS.dataset}: {error}")
    print(as_table(measurements))


if __name__ == "__main__":
    app.run(main)
