r"""Draw masks: analytic ones for several ε, and learned ones beside exact ones.

  gc-net draw_masks --output=docs/images

Writes masks_learned.png and masks_epsilon.png (the paper's Fig. 3 and 4).
"""

import os

from absl import flags

from . import path_flags, program

OUTPUT = path_flags.define("output", "docs/images", "Folder to write to.")
IMAGE_SIZE = flags.DEFINE_integer("image_size", 160, "Side of each mask, in pixels.", lower_bound=8)


@program.tool(argument="output")
def main(_):
    from gc_net.figures import masks
    from gc_net.figures.picture_files import save_picture

    os.makedirs(OUTPUT.value, exist_ok=True)
    for name, draw in [("epsilon", masks.epsilon_figure), ("learned", masks.learned_figure)]:
        path = os.path.join(OUTPUT.value, f"masks_{name}.png")
        save_picture(path, draw(IMAGE_SIZE.value))
        print(path)


if __name__ == "__main__":
    program.run(main)
