r"""Train and evaluate a list of variants, and put them into one table.

gc-net sweep --sweep=losses --dataset=cub --data_dir=CUB_200_2011 --work_dir=runs/losses
gc-net sweep --sweep=geometries --seeds=0,1,2 --data_dir=my_photos --work_dir=runs/shapes
gc-net sweep --vary=loss_weights=area=1,area=2.5 --data_dir=my_photos --work_dir=runs/area

losses and geometries are the paper's Tables 1 and 2. Flags of gc-net train set what all variants
share. Runs share the stages whose settings agree. The same command resumes and repeats nothing that
is finished. With another --protocol or --limit, runs are measured again, not trained again.
"""

from absl import app, flags

from gc_net.evaluation.protocols import PROTOCOLS

from . import config_flags, program

FLAGS = flags.FLAGS
config_flags.define_run()
flags.adopt_module_key_flags(config_flags)
flags.DEFINE_enum("sweep", None, ["losses", "geometries"], "A list of variants from the paper.")
flags.DEFINE_multi_string(
    "vary", None, "Setting and its values, e.g. detector_epochs=2,5. Several give all combinations."
)
flags.DEFINE_list("seeds", None, "Seeds to run every variant with; --seed alone if not set.")
flags.DEFINE_enum("protocol", "paper", PROTOCOLS.names, "When a box counts as right.")
flags.DEFINE_integer("limit", None, "Evaluate only on this many test images.", lower_bound=1)


@program.tool(argument="data_dir")
def main(_):
    if (FLAGS.sweep is None) == (FLAGS.vary is None):
        raise app.UsageError("Give either --sweep or --vary.")
    choices = _choices(FLAGS.vary or [])
    with program.ending_plainly(interrupted=program.RESUMES):
        from gc_net.experiments.sweep import SWEEPS, grid, run_sweep

        config, options = config_flags.read_run()
        seeds = None if FLAGS.seeds is None else [int(seed) for seed in FLAGS.seeds]
        if FLAGS.sweep:
            variants, form = SWEEPS[FLAGS.sweep], FLAGS.sweep
        else:
            variants = grid(choices)
            form = "methods"
        evaluation = {"protocol": FLAGS.protocol, "limit": FLAGS.limit}
        print(run_sweep(config, options, variants, seeds, form, **evaluation))
    print(f"\nWritten to {options.work_dir}.")


def _choices(items):
    """Return {setting: its values} of the --vary flags."""
    choices = {}
    for item in items:
        name, _, values = item.partition("=")
        if name in choices:
            both = ",".join([*choices[name], values])
            raise app.UsageError(f"--vary={name} is given twice. Say --vary={name}={both}.")
        choices[name] = values.split(",")
    return choices


if __name__ == "__main__":
    program.run(main)
