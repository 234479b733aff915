r"""Teach a model to rate its own boxes, for a confidence that ranks better.

  gc-net rate --model=runs/mine/model --output=runs/rated/model
  gc-net rate --model=saved_models/birds --dataset=cub --data_dir=CUB_200_2011 --output=rated/model

The model needs the head of edges (recipes/photos.flags has it). It compares its boxes in training
images with those of a teacher, and learns what the images look like on which they differ. No true
box is read, and its own boxes and classes stay exactly as they are. A training with --rating_images
has done this already.
"""

from absl import flags

from gc_net.stages.rating import RatingConfig

from . import config_flags, data_flags, path_flags, program

FLAGS = flags.FLAGS
IMAGES = 1500

path_flags.define("model", None, "Folder of the model, or of the run that has it.", required=True)
path_flags.define("output", None, "Folder to write, which must not exist.", required=True)
data_flags.define(split="train")
config_flags.define(RatingConfig, "rating_")
FLAGS.set_default("rating_images", IMAGES)


@program.tool(argument="model", first=("model", "output", "dataset", "data_dir"))
def main(_):
    import os

    import gc_net
    from gc_net.stages.rating import rated_localizer

    if os.path.exists(FLAGS.output):
        raise ValueError(f"{FLAGS.output} exists. Choose another --output, or delete it.")
    localizer = gc_net.load(FLAGS.model)
    split = data_flags.dataset()(localizer.record).split(FLAGS.split)
    rated_localizer(localizer, split, config_flags.read(RatingConfig, "rating_")).save(FLAGS.output)
    print(f"Wrote {FLAGS.output}. All other commands take it as --model.")


if __name__ == "__main__":
    program.run(main)
