r"""Write a model that draws another shape, without any training.

  gc-net change_shape --model=runs/mine/model --detector_shape=rotated_ellipse \
      --output=runs/ellipse/model

A detector with the head of edges (recipes/photos.flags has it) finds an object's edges and its
mask. They give its box, a rotated rectangle and an ellipse. Detectors with other heads have learned
only one shape and are refused.
"""

from absl import flags

from gc_net.shapes import SHAPES

from . import path_flags, program

FLAGS = flags.FLAGS

path_flags.define("model", None, "Folder of the model, or of the run that has it.", required=True)
flags.DEFINE_enum("detector_shape", None, list(SHAPES), "Shape to draw.", required=True)
flags.DEFINE_alias("shape", "detector_shape")
path_flags.define("output", None, "Folder to write, which must not exist.", required=True)


@program.tool(argument="model", first=("model", "detector_shape", "output"))
def main(_):
    import os

    import gc_net

    if os.path.exists(FLAGS.output):
        raise ValueError(f"{FLAGS.output} exists. Choose another --output, or delete it.")
    localizer = gc_net.load(FLAGS.model).with_shape(FLAGS.detector_shape)
    localizer.save(FLAGS.output)
    print(f"Wrote {FLAGS.output}. All other commands take it as --model.")


if __name__ == "__main__":
    program.run(main)
