"""The flags of the engine, for tools that use a trained model."""

from absl import app, flags

from gc_net import engines

from . import path_flags

FLAGS = flags.FLAGS

_NUM_CALIBRATION = 50


def define():
    flags.DEFINE_enum(
        "engine",
        engines.AUTO,
        engines.names(),
        "What runs the networks; all but int8 give the same shapes. auto takes xnnpack on a CPU if "
        f"there are at least {engines.PAYS_FROM} images, and tensorflow otherwise.",
    )
    path_flags.define(
        "calibration_images",
        None,
        "For --engine=int8: typical images, such as those of the training; "
        f"{_NUM_CALIBRATION} are used.",
    )


def chosen():
    """Return the engine that the flags name: its name, or an `Engine`."""
    if FLAGS.engine != "int8":
        if FLAGS.calibration_images is not None:
            raise app.UsageError("--calibration_images is for --engine=int8.")
        return FLAGS.engine
    if FLAGS.calibration_images is None:
        raise app.UsageError(
            "--engine=int8 needs typical images to choose its levels by: add "
            "--calibration_images=my_photos, for example the training images."
        )
    from gc_net.engines.int8 import Int8
    from gc_net.export.tflite import read_squashed

    return Int8(read_squashed(FLAGS.calibration_images, _NUM_CALIBRATION, 256))
