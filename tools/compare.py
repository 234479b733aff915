r"""Put several runs' metrics.json into one table, in the form of the paper's.

gc-net compare runs/a runs/b
gc-net compare "Ellipse=runs/a" "Rectangle=runs/b" --methods --format=latex
gc-net compare runs/losses/*/seed* --form=losses

A run is a metrics.json, or a folder that has one; name=path names its row. Rows that would be
alike, such as those of several seeds, become one: mean ± standard deviation. Runs of one row that
differ in their settings are refused.
"""

from absl import app, flags

from gc_net.tables import TABLE_FORMATS

from . import program

FLAGS = flags.FLAGS

flags.DEFINE_enum(
    "form",
    "methods",
    ["methods", "losses", "geometries", "all"],
    "Rows by run (Tables 3 and 4 of the paper), by loss terms (1), by shape and generator (2); or "
    "by run with all metrics.",
)
flags.DEFINE_enum("format", "markdown", TABLE_FORMATS.names, "How the table is written.")
flags.DEFINE_bool(
    "methods",
    False,
    "Add the other methods that the first run was measured with; * marks tuned ones.",
)
flags.DEFINE_bool("intervals", False, "Show the 95 % intervals of single runs.")


@program.tool(arguments=True)
def main(argv):
    if len(argv) < 2:
        raise app.UsageError("Give at least one run.")
    from gc_net.experiments import compare

    runs = [compare.read_run(path) for path in argv[1:]]
    if FLAGS.methods:
        runs = runs + compare.with_methods(runs[0])[1:]
    print(compare.table(runs, FLAGS.form, FLAGS.format, FLAGS.intervals))


if __name__ == "__main__":
    program.run(main)
