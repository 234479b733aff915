r"""Measures prediction from image files to a COCO file, beside the model's own forward pass.

python -m tools.benchmark_predict --images=photos
python -m tools.benchmark_predict --images=photos --backbone=tiny --image_size=32 --memory=50000
"""

import tempfile

from absl import app, flags

from gc_net.backbones import BACKBONES

FLAGS = flags.FLAGS
flags.DEFINE_string("images", None, "Folder, pattern or .txt list.", required=True)
flags.DEFINE_string("model", None, "Folder of a model; an untrained one is made if not set.")
flags.DEFINE_enum("backbone", "efficientnet_lite0", BACKBONES.names, "Of an untrained model.")
flags.DEFINE_integer("image_size", 224, "Of an untrained model.", lower_bound=16)
flags.DEFINE_integer("batch_size", 32, "Images a batch.", lower_bound=1)
flags.DEFINE_integer("num_images", 500, "Images to time.", lower_bound=1)
flags.DEFINE_integer("rounds", 3, "Rounds in which both have their turn.", lower_bound=1)
flags.DEFINE_integer("memory", 0, "Instead, predict so many images and watch the memory.")


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {' '.join(argv[1:])}")
    from gc_net.benchmarks import predict

    with tempfile.TemporaryDirectory() as scratch:
        model_dir = FLAGS.model
        if model_dir is None:
            model_dir = scratch
            predict.untrained_model(model_dir, FLAGS.backbone, FLAGS.image_size)
        if FLAGS.memory:
            print("| images done | resident MB |\n|---|---|")
            for done, megabytes in predict.measure_memory(
                model_dir, FLAGS.images, num_images=FLAGS.memory, batch_size=FLAGS.batch_size
            ):
                print(f"| {done:,} | {megabytes:.0f} |")
            return
        print(
            "| confidence | forward pass, images/s | files to COCO, images/s | time | processor |"
        )
        print("|---|---|---|---|---|")
        for confidence in (False, True):
            speed = predict.measure_speed(
                model_dir,
                FLAGS.images,
                confidence=confidence,
                batch_size=FLAGS.batch_size,
                num_images=FLAGS.num_images,
                rounds=FLAGS.rounds,
            )
            name = "yes" if confidence else "no"
            print(
                f"| {name} | {speed.forward:.1f} | {speed.files:.1f} | {speed.ratio:.2f}× "
                f"| {speed.cpu_ratio:.2f}× |",
                flush=True,
            )


if __name__ == "__main__":
    app.run(main)
