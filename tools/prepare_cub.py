r"""Check a copy of CUB-200-2011, or unpack its archive.

gc-net prepare_cub --archive=CUB_200_2011.tgz --output=data
gc-net prepare_cub --data_dir=data/CUB_200_2011

The archive is at https://data.caltech.edu/records/65de6-vp158. The exit status is 0 if the copy is
complete and 1 if something is missing, which is then named; a partial copy can still be used.
"""

from absl import app, flags

from . import path_flags, program

FLAGS = flags.FLAGS
path_flags.define("data_dir", None, "An unpacked copy: the CUB_200_2011 folder or its parent.")
path_flags.define("archive", None, "CUB_200_2011.tgz, to be checked and unpacked.")
path_flags.define("output", None, "Folder to unpack into; if not given, nothing is unpacked.")


@program.tool(argument="data_dir")
def main(_):
    if (FLAGS.data_dir is None) == (FLAGS.archive is None):
        raise app.UsageError("Give either --data_dir or --archive.")
    if FLAGS.output is not None and FLAGS.archive is None:
        raise app.UsageError("--output goes with --archive.")
    from gc_net.datasets.cub_copy import prepare

    findings = prepare(FLAGS.data_dir, FLAGS.archive, FLAGS.output)
    print(findings.text())
    return 1 if findings.problems else 0


if __name__ == "__main__":
    program.run(main)
