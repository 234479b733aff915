r"""Draw the loss curves of a run, one plot a stage.

python -m tools.draw_curves --run=runs/mine --output=curves.png
"""

import sys

from absl import app

from tools import path_flags

RUN = path_flags.define("run", None, "Folder of the run (its work_dir).", required=True)
OUTPUT = path_flags.define("output", "curves.png", "Picture to write: .png, .jpg or .pdf.")


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {argv[1:]}")
    from gc_net.figures.loss_curves import draw_loss_curves
    from gc_net.figures.picture_files import save_picture

    try:
        save_picture(OUTPUT.value, draw_loss_curves(RUN.value))
    except (ValueError, OSError) as error:
        sys.exit(f"Error: {error}")
    print(OUTPUT.value)


if __name__ == "__main__":
    app.run(main)
