r"""Draw the loss curves of a run, one plot a stage.

gc-net draw_curves --run=runs/mine --output=curves.png
"""

from . import path_flags, program

RUN = path_flags.define("run", None, "Folder of the run (its work_dir).", required=True)
OUTPUT = path_flags.define("output", "curves.png", "Picture to write: .png, .jpg or .pdf.")


@program.tool(argument="run")
def main(_):
    from gc_net.figures.loss_curves import draw_loss_curves
    from gc_net.figures.picture_files import save_picture

    save_picture(OUTPUT.value, draw_loss_curves(RUN.value))
    print(OUTPUT.value)


if __name__ == "__main__":
    program.run(main)
