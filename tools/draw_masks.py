r"""Draw masks: the analytic ones against ε, and the learned ones beside exact ones.

  python -m tools.draw_masks --output=docs/images

Writes masks_epsilon.png (the paper's Fig. 3) and masks_learned.png.
"""

import os

from absl import app, flags

from tools import path_flags

OUTPUT = path_flags.define("output", "docs/images", "Folder to write to.")
IMAGE_SIZE = flags.DEFINE_integer("image_size", 160, "Side of each mask, in pixels.", lower_bound=8)


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {argv[1:]}")
    from gc_net.figures import masks
    from gc_net.figures.picture_files import save_picture

    os.makedirs(OUTPUT.value, exist_ok=True)
    for name, draw in [("epsilon", masks.epsilon_figure), ("learned", masks.learned_figure)]:
        path = os.path.join(OUTPUT.value, f"masks_{name}.png")
        save_picture(path, draw(IMAGE_SIZE.value))
        print(path)


if __name__ == "__main__":
    app.run(main)
