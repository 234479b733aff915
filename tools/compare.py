r"""Put runs into one table, in the form of the paper's; or train methods for it.

gc-net compare runs/a runs/b
gc-net compare "Ellipse=runs/a" "Rectangle=runs/b" --methods --format=latex
gc-net compare runs/losses/*/seed* --form=losses
gc-net compare --methods=cam,has,acol,spg,adl,cutmix,danet,gc_net --seeds=0,1,2 \
    --flagfile=recipes/photos.flags --data_dir=my_photos --work_dir=runs/rivals

A run is a metrics.json, or a folder that has one; name=path names its row. Equal rows, such as
those of several seeds, become one: mean ± standard deviation. Runs of one row that differ in their
settings are refused.

Without runs, --methods names what to train: methods of gc-net train --method, gc_net with the
settings of the flags, gc_net_plain with only the paper's losses, and psol. Flags of gc-net train
set what all of them share. They are evaluated. The table, in the form of the paper's Tables 3 and
4, is written to --work_dir beside a gallery. Methods without a classifier of their own share one.
The same command resumes and repeats nothing that is finished.
"""

from absl import app, flags

from gc_net.evaluation.protocols import PROTOCOLS
from gc_net.tables import TABLE_FORMATS

from . import config_flags, program

FLAGS = flags.FLAGS
config_flags.define_run()
flags.adopt_module_key_flags(config_flags)
flags.DEFINE_enum(
    "form",
    "methods",
    ["methods", "losses", "geometries", "all"],
    "Rows by run (Tables 3 and 4 of the paper), by loss terms (Table 1), by shape and generator "
    "(Table 2), or by run with all metrics.",
)
flags.DEFINE_enum("format", "markdown", TABLE_FORMATS.names, "How the table is written.")


class _NamesParser(flags.ArgumentParser):
    """Reads nothing, a truth value, or names separated by commas."""

    syntactic_help = "names separated by commas, or nothing"

    def parse(self, argument):
        if isinstance(argument, (bool, list)):
            return argument
        if argument in ("true", "false"):
            return argument == "true"
        return [name.strip() for name in argument.split(",") if name.strip()]


flags.DEFINE_flag(
    flags.Flag(
        _NamesParser(),
        None,
        "methods",
        False,
        "With runs, add the other methods of the first run's evaluation; * marks tuned ones. "
        "Without runs, =NAMES trains these methods and compares them.",
        boolean=True,
    )
)
flags.DEFINE_bool("intervals", False, "Show the 95 % intervals of single runs.")
flags.DEFINE_list("seeds", None, "Seeds to train every method with; --seed alone if not set.")
flags.DEFINE_enum("protocol", "paper", PROTOCOLS.names, "When a box counts as right.")
flags.DEFINE_integer("limit", None, "Evaluate only on this many test images.", lower_bound=1)
flags.DEFINE_bool("ten_crop", False, "Classify the mean of ten crops, as in the paper.")
flags.DEFINE_string(
    "level_teacher",
    "auto",
    "Teacher whose boxes of training images choose a level for heat maps, beside their "
    "authors' own level: auto for the committee, or as for --warmup_teacher; none for no level.",
)


@program.tool(arguments=True, first=("methods", "seeds", "flagfile", "data_dir", "work_dir"))
def main(argv):
    if isinstance(FLAGS.methods, list):
        if argv[1:]:
            raise app.UsageError(
                "Give runs to put into a table, or --methods=NAMES to train. Received both: "
                f"{' '.join(argv[1:])} and --methods={','.join(FLAGS.methods)}."
            )
        _train()
        return
    if len(argv) < 2:
        raise app.UsageError("Give at least one run. Or train some: --methods=NAMES.")
    from gc_net.experiments import compare

    runs = [compare.read_run(path) for path in argv[1:]]
    if FLAGS.methods:
        runs = runs + compare.with_methods(runs[0])[1:]
    print(compare.table(runs, FLAGS.form, FLAGS.format, FLAGS.intervals))


def _train():
    """Train, evaluate and compare the methods that --methods names."""
    try:
        config, options = config_flags.read_run()
        seeds = None if FLAGS.seeds is None else [int(seed) for seed in FLAGS.seeds]
    except ValueError as error:
        raise app.UsageError(str(error)) from None
    with program.ending_plainly(interrupted=program.RESUMES):
        from gc_net.experiments.rivals import run_comparison

        text = run_comparison(
            config,
            options,
            FLAGS.methods,
            seeds,
            level_teacher=None if FLAGS.level_teacher == "none" else FLAGS.level_teacher,
            protocol=FLAGS.protocol,
            limit=FLAGS.limit,
            ten_crop=FLAGS.ten_crop,
        )
        print(text)
    print(f"Written to {options.work_dir}: comparison.md, .tex, .csv and .json, and gallery.jpg.")


if __name__ == "__main__":
    program.run(main)
